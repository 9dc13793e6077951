"""Every rule of the checker. A new one is a file in this folder and its name here."""

from importlib import import_module

from pearl.lint.rules.base import LibraryView, PlanView, Rule

# Only the first rule that can explain an unreadable line reports it,
# so the order of the 1xx rules is from the most to the least precise.
_NAMES = """
    several_plans unreadable_action unknown_template_name doubled_braces several_returns
    step_inside_text truncated_line two_steps_a_line bad_reference bad_number bad_mode
    wrong_bracket nested_call missing_name named_argument missing_parenthesis missing_note_mark
    quote_inside_text unquoted_text bad_name not_a_step unclosed_string bad_token

    text_outside_plan no_steps unknown_action undefined_variable wrong_arity used_before_step
    redefined_variable shadowed_document duplicate_declaration clashing_declaration
    quoted_document misplaced_document mode_needs_list several_modes wrong_type
    unused_step quoted_variable duplicate_step concat_of_one unread_document number_for_step
    empty_text reference_in_note unused_declaration answers_not_kept quoted_name

    duplicate_signature missing_definition unmentioned_parameter bad_metadata similar_definitions
"""

RULES: tuple[Rule, ...] = tuple(
    import_module(f"pearl.lint.rules.{name}").RULE for name in _NAMES.split()
)

__all__ = ["RULES", "LibraryView", "PlanView", "Rule"]
