"""The OpenAPI document, from the models of the functions that views and programs call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from jbm_kafka.console.frame.action import ActionPreview, AnyAction
from jbm_kafka.console.frame.runs import ActionRun
from jbm_kafka.console.frame.view import API, View
from jbm_kafka.version import version

_REF = "#/components/schemas/{model}"


class RunStopped(BaseModel):
    """Which run."""

    id: str


def openapi_document(views: Sequence[View], actions: Sequence[AnyAction]) -> dict[str, Any]:
    """OpenAPI 3.1."""
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for view in views:
        get = {
            "summary": view.summary,
            "parameters": _parameters(view.asked, schemas, re.findall(r"{(\w+)(?::\w+)?}", view.path)),
            "responses": _responses("200", view.gives, schemas),
        }
        paths.setdefault(API + re.sub(r"{(\w+):\w+}", r"{\1}", view.path), {})["get"] = get
    for action in actions:
        body = {"content": {"application/json": {"schema": _schema(action.wanted, schemas)}}, "required": True}
        typed = " Confirm by `typed`: the name of what it is about." if action.destroys else ""
        paths[f"{API}/actions/{action.name}"] = {
            "get": {
                "summary": f"What this would do: {action.title}",
                "parameters": _parameters(action.wanted, schemas, ()),
                "responses": _responses("200", ActionPreview, schemas),
            },
            "post": {
                "summary": f"{action.title}.{typed}",
                "requestBody": body,
                "responses": _responses("202", ActionRun, schemas),
            },
        }
    paths[f"{API}/runs/{{id}}/stop"] = {
        "post": {
            "summary": "Have an action do no more: what it did stays done. 409: it is over, or is done as one.",
            "parameters": _parameters(RunStopped, schemas, ("id",)),
            "responses": _responses("202", ActionRun, schemas),
        }
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "jbm-kafka console", "version": version()},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"bearer": []}],
    }


def _schema(model: type[BaseModel], schemas: dict[str, Any]) -> dict[str, str]:
    made = model.model_json_schema(ref_template=_REF)
    schemas.update(made.pop("$defs", {}))
    schemas[model.__name__] = made
    return {"$ref": _REF.format(model=model.__name__)}


def _parameters(model: type[BaseModel], schemas: dict[str, Any], in_path: Sequence[str]) -> list[dict[str, Any]]:
    made = model.model_json_schema(ref_template=_REF)
    schemas.update(made.pop("$defs", {}))
    needed = made.get("required", [])
    return [
        {
            "name": name,
            "in": "path" if name in in_path else "query",
            "required": name in in_path or name in needed,
            "schema": schema,
        }
        for name, schema in made.get("properties", {}).items()
    ]


def _responses(status: str, model: type[BaseModel], schemas: dict[str, Any]) -> dict[str, Any]:
    fault = {"schema": {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}}
    return {
        status: {"description": "Done", "content": {"application/json": {"schema": _schema(model, schemas)}}},
        "default": {"description": "Why not", "content": {"application/json": fault}},
    }
