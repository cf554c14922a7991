import { z } from "zod";
import type { ServerTool } from "./server-tool.ts";

const maxCharacters = 1_000;
const maxDepth = 50;
/** Number of decimal digits that a float holds reliably. Rounding to them makes 0.1 + 0.2 equal 0.3. */
const significantDigits = 15;

const input = z.strictObject({ expression: z.string().min(1).max(maxCharacters) });

export const calculator: ServerTool<typeof input> = {
  name: "calculator",
  description:
    "Evaluates an arithmetic expression: numbers, + - * / % ^ and parentheses, the constants pi and e, and the " +
    "functions sqrt, abs, round, floor, ceil, ln, log, exp, sin, cos, tan, min and max.",
  parameters: {
    type: "object",
    properties: { expression: { type: "string", examples: ["(2 + 3) * 4"] } },
    required: ["expression"],
    additionalProperties: false,
  },
  input,
  run: ({ expression }) => ({ expression, result: calculate(expression) }),
};

/** An expression is invalid or has no finite value. The message is for the model. */
export class CalculatorError extends Error {}

const constants: Record<string, number> = { pi: Math.PI, e: Math.E };
const functions: Record<string, { arguments: 1 | "many"; apply: (...values: number[]) => number }> = {
  sqrt: { arguments: 1, apply: Math.sqrt },
  abs: { arguments: 1, apply: Math.abs },
  round: { arguments: 1, apply: Math.round },
  floor: { arguments: 1, apply: Math.floor },
  ceil: { arguments: 1, apply: Math.ceil },
  ln: { arguments: 1, apply: Math.log },
  log: { arguments: 1, apply: Math.log10 },
  exp: { arguments: 1, apply: Math.exp },
  sin: { arguments: 1, apply: Math.sin },
  cos: { arguments: 1, apply: Math.cos },
  tan: { arguments: 1, apply: Math.tan },
  min: { arguments: "many", apply: Math.min },
  max: { arguments: "many", apply: Math.max },
};

/** The operators with their binding powers. The right power is smaller if the operator is right-associative. */
const operators: Record<string, { left: number; right: number; apply: (a: number, b: number) => number }> = {
  "+": { left: 1, right: 2, apply: (a, b) => a + b },
  "-": { left: 1, right: 2, apply: (a, b) => a - b },
  "*": { left: 3, right: 4, apply: (a, b) => a * b },
  "/": { left: 3, right: 4, apply: (a, b) => a / b },
  "%": { left: 3, right: 4, apply: (a, b) => a % b },
  "^": { left: 7, right: 6, apply: (a, b) => a ** b },
};
/** The binding power of a sign, which is lower than that of `^` and higher than that of `*`: -2^2 is -4. */
const signPower = 5;

const tokenShape = /\s*(?:(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-z]+)|([-+*/%^(),]))/y;

/**
 * Returns the value of an arithmetic expression, rounded to 15 significant digits.
 * @throws CalculatorError
 */
export function calculate(expression: string): number {
  const tokens = tokenize(expression);
  let at = 0;
  let depth = 0;

  function parse(minPower: number): number {
    if (++depth > maxDepth) throw new CalculatorError("The expression is nested too deeply.");
    let left = operand();
    for (;;) {
      const operator = operators[tokens[at] ?? ""];
      if (!operator || operator.left < minPower) break;
      at += 1;
      left = operator.apply(left, parse(operator.right));
    }
    depth -= 1;
    return left;
  }

  function operand(): number {
    const token = tokens[at++];
    if (token === undefined) throw new CalculatorError("The expression ends too early.");
    if (token === "-") return -parse(signPower);
    if (token === "+") return parse(signPower);
    if (token === "(") {
      const value = parse(0);
      expect(")");
      return value;
    }
    if (/^[\d.]/.test(token)) return Number(token);
    return named(token);
  }

  function named(token: string): number {
    const name = token.toLowerCase();
    const called = Object.hasOwn(functions, name) ? functions[name] : undefined;
    if (called) {
      expect("(");
      const values = [parse(0)];
      while (tokens[at] === ",") {
        at += 1;
        values.push(parse(0));
      }
      expect(")");
      if (called.arguments === 1 && values.length > 1) throw new CalculatorError(`${name} takes one value.`);
      return called.apply(...values);
    }
    const constant = Object.hasOwn(constants, name) ? constants[name] : undefined;
    if (constant === undefined) throw new CalculatorError(`There is no ${token} here.`);
    return constant;
  }

  function expect(token: string): void {
    if (tokens[at++] !== token) throw new CalculatorError(`A ${token} is missing.`);
  }

  const value = parse(0);
  if (at < tokens.length) throw new CalculatorError(`${tokens[at]} is in the wrong place.`);
  if (!Number.isFinite(value)) throw new CalculatorError("The result is not a finite number.");
  return Number(value.toPrecision(significantDigits));
}

function tokenize(expression: string): string[] {
  const tokens: string[] = [];
  const text = expression.trimEnd();
  tokenShape.lastIndex = 0;
  while (tokenShape.lastIndex < text.length) {
    const from = tokenShape.lastIndex;
    const match = tokenShape.exec(text);
    if (!match)
      throw new CalculatorError(`Nothing can be read from ${JSON.stringify(text.slice(from, from + 10))} on.`);
    tokens.push(match[1] ?? match[2] ?? match[3] ?? "");
  }
  return tokens;
}
