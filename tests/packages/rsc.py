"""RouterOS scripts: a parser and an interpreter of the part of the language that routeros/*.rsc use, against a model of a router.

Names of menus, commands and options are checked when a script is parsed, as RouterOS does: one unknown name, and no line of the
script runs. What precedence RouterOS gives its operators is not relied on: mixing them without parentheses is refused."""

import re
from dataclasses import dataclass, field

WORD = re.compile(r"[A-Za-z0-9_./:*+~^,@%-]+")
NAME = re.compile(r"[A-Za-z0-9]+")
OPERATORS = ["&&", "||", "!=", "<=", ">=", "=", "<", ">", "~", ".", "+", "-", "*", "/"]
ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$"}


class ScriptError(Exception):
    """An error at run time, or in what :parse was given: on-error takes it."""


class SyntaxProblem(ScriptError):
    """The script cannot be parsed by this version."""


@dataclass
class Names:
    """Which menus, commands and options a version has."""

    table: dict
    version: str

    def known(self, ranges, name):
        return name in ranges and within(self.version, ranges[name])

    def check(self, menu, verb, options, properties):
        if menu not in self.table or not within(self.version, self.table[menu].get("versions", "")):
            raise SyntaxProblem(f"{self.version}: no menu {menu}")
        entry = self.table[menu]
        if not self.known(entry["commands"], verb):
            raise SyntaxProblem(f"{self.version}: no command {menu}/{verb}")
        allowed = set(entry.get("arguments", {}).get(verb, []))
        for name in options:
            if verb in ("add", "set") and self.known(entry["settable"], name):
                continue
            if name not in allowed:
                raise SyntaxProblem(f"{self.version}: {menu}/{verb} has no option {name}")
        for name in properties:
            if not (self.known(entry.get("settable", {}), name) or self.known(entry.get("readable", {}), name)):
                raise SyntaxProblem(f"{self.version}: {menu} has no property {name}")


def number(version):
    return tuple(int(part) for part in re.match(r"(\d+)\.(\d+)", version).groups())


def within(version, span):
    """`7.20-` since, `-7.19` until, both, or everywhere."""
    first, _, last = span.partition("-")
    return (not first or number(version) >= number(first)) and (not last or number(version) <= number(last))


class Parser:
    def __init__(self, text, names):
        self.text, self.names, self.at = text, names, 0
        self.commands, self.variables = [], []

    def script(self):
        block = self.block("")
        if self.at < len(self.text):
            self.fail("unexpected text")
        return block

    def fail(self, text):
        line = self.text.count("\n", 0, self.at) + 1
        raise SyntaxProblem(f"line {line}: {text}: {self.text[self.at : self.at + 40]!r}")

    def peek(self, text):
        return self.text.startswith(text, self.at)

    def take(self, text):
        if not self.peek(text):
            self.fail(f"{text!r} expected")
        self.at += len(text)

    def match(self, pattern):
        found = pattern.match(self.text, self.at)
        if not found:
            self.fail("a word expected")
        self.at = found.end()
        return found[0]

    def spaces(self):
        while self.at < len(self.text) and (self.text[self.at] in " \t" or self.peek("\\\n")):
            self.at += 2 if self.peek("\\\n") else 1

    def ends(self, closing):
        return self.at >= len(self.text) or self.text[self.at] in "\n;" or (closing and self.peek(closing))

    def block(self, closing):
        statements = []
        while True:
            self.spaces()
            if self.peek("#"):
                self.at = (self.text + "\n").index("\n", self.at)
            if self.at >= len(self.text) or (closing and self.peek(closing)):
                return statements
            if self.text[self.at] in "\n;":
                self.at += 1
                continue
            statements.append(self.statement(closing))
            self.spaces()
            if not self.ends(closing):
                self.fail("the end of the statement expected")

    def statement(self, closing):
        if self.peek(":"):
            return self.builtin(closing)
        if self.peek("$"):
            return ("call", self.value(), *self.arguments(closing)[:2])
        if self.peek("/"):
            return self.command(closing)
        if self.peek("["):
            return ("value", self.value())
        return self.fail("a statement expected")

    def builtin(self, closing):
        self.take(":")
        name = self.match(re.compile("[a-z]+"))
        self.spaces()
        if name in ("local", "global", "set"):
            variable = self.match(NAME)
            self.variables.append(variable)
            self.spaces()
            if self.ends(closing):
                return (name, variable, None)
            if self.peek("do={"):
                self.at += 3
                return (name, variable, ("function", self.braces()))
            return (name, variable, self.value())
        if name == "do" and self.peek("{"):
            body, handler = self.braces(), None
            self.spaces()
            if self.peek("on-error="):
                self.at += 9
                handler = self.braces()
            return ("do", body, handler)
        if name in ("if", "while"):
            condition = self.value()
            self.spaces()
            self.take("do=")
            body, otherwise = self.braces(), []
            self.spaces()
            if name == "if" and self.peek("else="):
                self.at += 5
                otherwise = self.braces()
            return (name, condition, body, otherwise)
        if name == "foreach":
            variable = self.match(NAME)
            self.variables.append(variable)
            self.spaces()
            self.take("in=")
            items = self.value()
            self.spaces()
            self.take("do=")
            return ("foreach", variable, items, self.braces())
        if name not in ("put", "error", "return", "delay", "len", "pick", "find", "typeof", "tostr", "tonum", "toarray", "parse"):
            self.fail(f"no command :{name}")
        return (name, self.arguments(closing)[0])

    def braces(self):
        self.take("{")
        block = self.block("}")
        self.take("}")
        return block

    def arguments(self, closing):
        """Values and options, up to the end of the statement."""
        values, options = [], {}
        while True:
            self.spaces()
            if self.ends(closing):
                return values, options
            found = re.compile(r"([a-z][a-z0-9-]*)=").match(self.text, self.at)
            if found:
                self.at = found.end()
                if found[1] in options:
                    self.fail(f"{found[1]} given twice")
                options[found[1]] = self.value()
            else:
                values.append(self.value())

    def command(self, closing):
        path = self.match(re.compile(r"(/[a-z0-9-]+)+"))
        menu, _, verb = path.rpartition("/")
        where, values, options = [], [], {}
        self.spaces()
        if verb == "find":
            where = self.where(closing)
        else:
            values, options = self.arguments(closing)
        # A property is a plain word after the item that it is of.
        properties = [name for name, _, _ in where]
        if verb == "get":
            properties += [value[1] for value in values if value[0] == "word"]
        if verb != "import":
            self.names.check(menu, verb, [name for name in options], properties)
        self.commands.append((menu, verb, sorted(options)))
        return ("command", menu, verb, values, options, where)

    def where(self, closing):
        conditions = []
        if self.peek("where"):
            self.at += 5
        while True:
            self.spaces()
            if self.ends(closing):
                return conditions
            if conditions:
                self.take("and")
                self.spaces()
            name = self.match(re.compile(r"[a-z][a-z0-9-]*"))
            operator = next((op for op in ("!=", "=", "~") if self.peek(op)), None)
            if operator:
                self.take(operator)
            conditions.append((name, operator, self.value() if operator else None))

    def value(self):
        self.spaces()
        if self.peek('"'):
            return self.string()
        if self.peek("$"):
            self.at += 1
            return ("variable", self.match(NAME))
        if self.peek("("):
            self.at += 1
            value = self.expression()
            self.take(")")
            return value
        if self.peek("["):
            self.at += 1
            self.spaces()
            statement = self.statement("]")
            self.spaces()
            self.take("]")
            return ("substitution", statement)
        if self.peek("{"):
            self.at += 1
            items = []
            while not self.peek("}"):
                items.append(self.value())
                self.spaces()
                if self.peek(";"):
                    self.at += 1
                    self.spaces()
            self.at += 1
            return ("array", items)
        word = self.match(WORD)
        return ("literal", int(word)) if word.isdecimal() else ("word", word)

    def string(self):
        self.take('"')
        parts, text = [], ""
        while not self.peek('"'):
            if self.at >= len(self.text):
                self.fail("a string without an end")
            character = self.text[self.at]
            self.at += 1
            if character == "\\":
                if self.text[self.at] not in ESCAPES:
                    self.fail("an unknown escape")
                text += ESCAPES[self.text[self.at]]
                self.at += 1
            elif character == "$":
                parts += [("literal", text), ("variable", self.match(NAME))]
                text = ""
            else:
                text += character
        self.take('"')
        return ("text", [*parts, ("literal", text)])

    def expression(self):
        self.spaces()
        if self.peek("!") and not self.peek("!="):
            self.at += 1
            value = ("not", self.value())
            self.spaces()
            return value
        value, used = self.value(), None
        while True:
            self.spaces()
            if self.peek(")"):
                return value
            operator = next((operator for operator in OPERATORS if self.peek(operator)), None)
            if operator is None:
                self.fail("an operator expected")
            if used not in (None, operator):
                self.fail(f"{used} and {operator} without parentheses")
            used = operator
            self.take(operator)
            value = ("operator", operator, value, self.value())


class Return(Exception):
    def __init__(self, value):
        super().__init__()
        self.value = value


@dataclass
class Function:
    body: list


@dataclass
class Scope:
    router: object
    variables: dict = field(default_factory=dict)
    parent: "Scope | None" = None

    def find(self, name):
        scope = self
        while scope is not None:
            if name in scope.variables:
                return scope.variables
            scope = scope.parent
        raise ScriptError(f"no variable {name}")


class Interpreter:
    """Runs scripts on a router: an object with `names`, `globals`, `execute`, `put`, `wait` and `script`."""

    def __init__(self, router):
        self.router = router

    def run(self, text):
        block = Parser(text, self.router.names).script()
        self.block(block, Scope(self.router))

    def block(self, statements, parent):
        scope = Scope(self.router, parent=parent)
        value = None
        for statement in statements:
            value = self.statement(statement, scope)
        return value

    def statement(self, statement, scope):
        kind = statement[0]
        if kind in ("local", "global", "set"):
            return self.assign(kind, statement[1], statement[2], scope)
        if kind == "do":
            try:
                self.block(statement[1], scope)
            except ScriptError:
                if statement[2] is None:
                    raise
                self.block(statement[2], scope)
        elif kind == "if":
            chosen = statement[2] if self.truth(statement[1], scope) else statement[3]
            self.block(chosen, scope)
        elif kind == "while":
            for _ in range(10_000):
                if not self.truth(statement[1], scope):
                    return None
                self.block(statement[2], scope)
            raise AssertionError("a loop without an end")
        elif kind == "foreach":
            for item in self.evaluate(statement[2], scope):
                self.block(statement[3], Scope(self.router, {statement[1]: item}, scope))
        elif kind == "call":
            return self.call(self.evaluate(statement[1], scope), statement[2], statement[3], scope)
        elif kind == "command":
            return self.command(statement, scope)
        elif kind == "value":
            return self.evaluate(statement[1], scope)
        else:
            return self.builtin(kind, [self.evaluate(value, scope) for value in statement[1]])
        return None

    def assign(self, kind, name, expression, scope):
        value = None if expression is None else self.evaluate(expression, scope)
        if kind == "local":
            scope.variables[name] = value
        elif kind == "global":
            if expression is not None:
                self.router.globals[name] = value
            scope.variables[name] = None
            scope.variables[name, "global"] = True
        else:
            variables = scope.find(name)
            if (name, "global") in variables:
                self.router.globals[name] = value
            else:
                variables[name] = value

    def truth(self, expression, scope):
        value = self.evaluate(expression, scope)
        if not isinstance(value, bool):
            raise AssertionError(f"{value!r} is used as a condition")
        return value

    def call(self, function, values, options, scope):
        if not isinstance(function, Function):
            raise AssertionError(f"{function!r} is called, but no function")
        given = {str(place): self.evaluate(value, scope) for place, value in enumerate(values, 1)}
        given |= {name: self.evaluate(value, scope) for name, value in options.items()}
        try:
            self.block(function.body, Scope(self.router, given))
        except Return as returned:
            return returned.value
        return None

    def builtin(self, name, values):
        if name == "put":
            return self.router.put(text(values[0]))
        if name == "error":
            raise ScriptError(text(values[0]))
        if name == "return":
            raise Return(values[0])
        if name == "delay":
            return self.router.wait(int(str(values[0]).rstrip("s")))
        if name == "len":
            return 0 if values[0] is None else len(values[0] if isinstance(values[0], list) else text(values[0]))
        if name == "pick":
            return values[0][values[1] : values[2]] if len(values) == 3 else values[0][values[1]]
        if name == "find":
            place = text(values[0]).find(text(values[1])) if text(values[1]) else -1
            return None if place < 0 else place
        if name == "typeof":
            return {bool: "bool", int: "num", str: "str", list: "array", type(None): "nil", Function: "code"}[type(values[0])]
        if name == "tostr":
            return text(values[0])
        if name == "tonum":
            return int(values[0])
        if name == "toarray":
            return [part for part in text(values[0]).split(",") if part]
        return Function(Parser(values[0], self.router.names).script())

    def command(self, statement, scope):
        _, menu, verb, values, options, where = statement
        if (menu, verb) == ("", "import"):
            return self.run(self.router.script(self.evaluate(options["file-name"], scope)))
        arguments = [value[1] if value[0] == "word" else self.evaluate(value, scope) for value in values]
        options = {name: self.evaluate(value, scope) for name, value in options.items()}
        where = [(name, operator, value and self.evaluate(value, scope)) for name, operator, value in where]
        return self.router.execute(menu, verb, arguments, options, where)

    def evaluate(self, value, scope):
        kind, content = value[0], value[1]
        if kind == "literal":
            return content
        if kind == "word":
            return {"yes": True, "true": True, "no": False, "false": False}.get(content, content)
        if kind == "text":
            return "".join(text(self.evaluate(part, scope)) for part in content)
        if kind == "variable":
            variables = scope.find(content)
            return self.router.globals.get(content) if (content, "global") in variables else variables[content]
        if kind == "array":
            return [self.evaluate(item, scope) for item in content]
        if kind == "function":
            return Function(content)
        if kind == "substitution":
            return self.statement(content, scope)
        if kind == "not":
            return not self.truth(content, scope)
        return self.operate(content, value[2], value[3], scope)

    def operate(self, operator, left, right, scope):
        if operator in ("&&", "||"):
            return (
                (self.truth(left, scope) and self.truth(right, scope))
                if operator == "&&"
                else (self.truth(left, scope) or self.truth(right, scope))
            )
        left, right = self.evaluate(left, scope), self.evaluate(right, scope)
        if operator == ".":
            return text(left) + text(right)
        if operator in ("=", "!="):
            return (type(left) is type(right) and left == right) == (operator == "=")
        if not (isinstance(left, int) and isinstance(right, int)):
            raise AssertionError(f"{left!r} {operator} {right!r}")
        return {"<": left < right, ">": left > right, "<=": left <= right, ">=": left >= right, "+": left + right, "-": left - right}[
            operator
        ]


def text(value):
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ";".join(text(item) for item in value)
    return str(value)
