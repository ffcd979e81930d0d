"""Signatures of Equinox modules, methods and densities: fields are what they are built from.

The reader of docstrings knows the dataclasses of the standard library only; these are such too.
Methods that take the options of a command show its fields as their arguments.
"""

from typing import Any

import griffe

NO_FIELD = ("eqx.AbstractVar", "eqx.AbstractClassVar")


class ModuleSignatures(griffe.Extension):
    """Gives every module without a constructor of its own the one that Equinox makes."""

    def on_package(self, *, pkg: griffe.Module, **others: Any) -> None:
        # All are found before the first is given one: its subclasses have none of their own yet.
        for cls in [c for c in classes_in(pkg) if has_settings(c) or is_plain_module(c)]:
            cls.set_member("__init__", constructor(cls))
        models = {cls.name: cls for cls in classes_in(pkg)}
        for function in functions_in(pkg):
            name = options_of(function)
            if name in models:
                first = function.parameters[0]
                function.parameters = griffe.Parameters(first, *options(models[name]))


def classes_in(module: griffe.Module) -> list[griffe.Class]:
    """All classes that are defined in a package, not those that are imported."""
    found = [cls for cls in module.classes.values() if not cls.is_alias]
    for inner in module.modules.values():
        if not inner.is_alias:
            found += classes_in(inner)
    return found


def functions_in(pkg: griffe.Module) -> list[griffe.Function]:
    """All functions and methods that are defined in a package."""
    modules = [pkg]
    for module in modules:
        modules += [inner for inner in module.modules.values() if not inner.is_alias]
    places = [*modules, *classes_in(pkg)]
    return [one for place in places for one in place.functions.values() if not one.is_alias]


def options_of(function: griffe.Function) -> str | None:
    """The model whose fields a function takes, as `takes(Model)` above it says."""
    for decorator in function.decorators:
        if isinstance(decorator.value, griffe.ExprCall) and decorator.callable_path.endswith(
            ".takes"
        ):
            return str(decorator.value.arguments[0])
    return None


def options(model: griffe.Class) -> list[griffe.Parameter]:
    """A parameter for each field; those below `KW_ONLY` are given by name."""
    kind, result = griffe.ParameterKind.positional_or_keyword, []
    for name, field in model.attributes.items():
        if "property" in field.labels:
            continue
        if str(field.annotation) == "KW_ONLY":
            kind = griffe.ParameterKind.keyword_only
            continue
        shown = field.annotation
        if isinstance(shown, griffe.ExprSubscript) and str(shown.left) == "Annotated":
            shown = shown.slice.elements[0]  # without how the command line has it
        result.append(griffe.Parameter(name, annotation=shown, kind=kind, default=field.value))
    return result


def has_settings(cls: griffe.Class) -> bool:
    """Whether its settings are checked by a constructor that all share, which hides them."""
    return any(base.name == "Settings" or has_settings(base) for base in parents(cls))


def is_plain_module(cls: griffe.Class) -> bool:
    return is_module(cls) and not has_constructor(cls)


def is_module(cls: griffe.Class) -> bool:
    names = [str(base) for base in cls.bases]
    return "eqx.Module" in names or any(is_module(base) for base in parents(cls))


def has_constructor(cls: griffe.Class) -> bool:
    return "__init__" in cls.members or any("__init__" in base.members for base in parents(cls))


def parents(cls: griffe.Class) -> list[griffe.Class]:
    return [base for base in cls.resolved_bases if isinstance(base, griffe.Class)]


def constructor(cls: griffe.Class) -> griffe.Function:
    kind = griffe.ParameterKind.positional_or_keyword
    parameters = [griffe.Parameter("self", annotation=None, kind=kind, default=None)]
    parameters += [
        griffe.Parameter(field.name, annotation=field.annotation, kind=kind, default=default(field))
        for field in fields(cls)
    ]
    made = griffe.Function("__init__", parameters=griffe.Parameters(*parameters), returns="None")
    made.parent = cls
    return made


def fields(cls: griffe.Class) -> list[griffe.Attribute]:
    """Those of the classes above come first."""
    found = {field.name: field for base in parents(cls) for field in fields(base)}
    for name, member in cls.members.items():
        if (
            isinstance(member, griffe.Attribute)
            and member.annotation is not None
            and "instance-attribute" in member.labels  # neither a property nor a ClassVar
            and not str(member.annotation).startswith(NO_FIELD)
        ):
            found[name] = member
    return list(found.values())


def default(field: griffe.Attribute) -> Any:
    """What stands behind the equals sign, or inside `eqx.field(default=...)`."""
    value = field.value
    if isinstance(value, griffe.ExprCall) and str(value.function) == "eqx.field":
        given = {
            argument.name: argument.value
            for argument in value.arguments
            if isinstance(argument, griffe.ExprKeyword)
        }
        if "default_factory" in given:
            return griffe.ExprCall(given["default_factory"], [])
        return given.get("default")
    return value
