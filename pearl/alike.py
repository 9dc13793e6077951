"""How alike two actions are, from their names, definitions and parameters; and groups of them.

Nothing here asks a model, and nothing is learnt: what counts is the words that
say what an action finds, a rare word for more than one that many actions share.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pearl.plan import DOCUMENT, Action

# Words for the same thing in questions about texts; a line is one thing.
_SYNONYMS = """
reason cause motive motivation rationale justification explanation
purpose intent intention aim goal objective mission
plan strategy scheme intention
method technique means process procedure approach
outcome result consequence effect impact repercussion aftermath influence implication
future prediction forecast predict fate
likely likelihood probable probability plausible
trait characteristic quality attribute personality feature
describe description depiction portrayal
feeling emotion sentiment attitude feel
opinion view belief thought perspective perception impression attitude stance viewpoint sentiment
relation relationship connection link tie bond dynamic
similarity commonality resemblance parallel common alike
difference contrast distinction
conflict disagreement dispute quarrel grievance complaint
problem challenge difficulty obstacle barrier struggle hardship danger threat risk difficult
fear worry concern anxiety
dilemma conflict struggle
flaw weakness mistake error fault shortcoming
limit limitation restriction constraint
meaning interpretation definition sense interpret define
meaning symbolism symbol
explanation explain comprehension comprehend interpretation paraphrase
importance significance relevance role
theme motif topic
lesson moral takeaway insight
evidence proof support
example instance case
indication indicator sign hint clue foreshadow
advice recommendation suggestion
suggestion improvement
benefit advantage gain merit
drawback disadvantage cost harm
fact truth information
false incorrect untrue wrong inaccurate
decision choice
solution remedy resolution
event incident occurrence happening
ending conclusion resolution
dialogue conversation exchange
person character individual figure
criticism critique objection
summary summarize overview gist
style tone voice manner
mood tone atmosphere
place location setting
reaction response react reception
promise pledge commitment vow
mention show state appear
desire wish hope want
knowledge awareness know
irony paradox contradiction
strange odd unusual abnormal
surprise unexpected surprising
"""

_OPPOSITES = """
true false
fact false
positive negative
benefit drawback
benefit harm
advantage disadvantage
similarity difference
common different
cause effect
cause outcome
reason outcome
reason consequence
reason purpose
agree disagree
first last
beginning ending
before after
strength weakness
success failure
gain loss
problem solution
best worst
past future
protagonist antagonist
love hate
normal strange
normal abnormal
question answer
"""
