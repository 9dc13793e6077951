"""Replies in demanded form: one file a schema, in ``prompts/schemas/``."""

from __future__ import annotations

import json
import tomllib
from functools import cache
from importlib.resources import files

from pearl.llm.calls import Field, Schema
from pearl.values import as_text, from_json


@cache
def load_schema(name: str) -> Schema:
    """A schema that ships with Pearl.

    Its file has ``task``, and ``[fields.NAME]`` with ``about`` and the JSON
    schema of the field's values; ``[[examples]]`` with ``given`` and ``reply``
    are shown to the model.

    Args:
        name: the file's name without its ending.

    Raises:
        FileNotFoundError: there is none.
    """
    place = files("pearl.prompts") / "schemas" / f"{name}.toml"
    data = tomllib.loads(place.read_text(encoding="utf-8"))
    fields = tuple(
        Field(
            field,
            told["about"],
            _json({key: value for key, value in told.items() if key != "about"}),
        )
        for field, told in data["fields"].items()
    )
    examples = tuple(
        (
            tuple((key, as_text(from_json(value))) for key, value in one["given"].items()),
            _json(one["reply"]),
        )
        for one in data.get("examples", ())
    )
    return Schema(name, data["task"].strip(), fields, examples)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
