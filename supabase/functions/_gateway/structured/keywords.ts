import { isObject } from "../../_shared/json.ts";
import { canonicalize } from "./canonical.ts";
import { type Check, type KeywordContext, UnsupportedSchema } from "./check.ts";

/**
 * Creates a keyword's check, or returns undefined if the keyword has no effect of its own.
 * @throws UnsupportedSchema for an invalid value
 */
type CreateKeywordCheck = (given: unknown, place: KeywordContext) => Check | undefined;
export type Checks = typeof keywords;

const typeChecks: Record<string, (value: unknown) => boolean> = {
  array: Array.isArray,
  boolean: (value) => typeof value === "boolean",
  integer: Number.isInteger,
  null: (value) => value === null,
  number: (value) => typeof value === "number",
  object: isObject,
  string: (value) => typeof value === "string",
};

/** The checks of the JSON Schema 2020-12 keywords (Core, 10; Validation, 6). */
export const keywords = {
  // Keywords that apply schemas to the value itself, not to its members.
  $ref(given, { resolve, pointer }) {
    const target = resolve(requireText(given, pointer), pointer);
    return (value, effort) => effort.descend(target, value);
  },
  allOf(given, place) {
    const all = compileSchemas(given, place);
    return (value, effort) => all.every((each) => each(value, effort));
  },
  anyOf(given, place) {
    const any = compileSchemas(given, place);
    return (value, effort) => any.some((each) => each(value, effort));
  },
  oneOf(given, place) {
    const one = compileSchemas(given, place);
    return (value, effort) => one.filter((each) => each(value, effort)).length === 1;
  },
  not(given, { compile, pointer }) {
    const no = compile(given, pointer);
    return (value, effort) => !no(value, effort);
  },
  if(given, { schema, compile, pointer }) {
    const condition = compile(given, pointer);
    const branch = (name: "then" | "else") =>
      Object.hasOwn(schema, name) ? compile(schema[name], pointer.replace(/if$/, name)) : () => true;
    const [met, unmet] = [branch("then"), branch("else")];
    return (value, effort) => (condition(value, effort) ? met : unmet)(value, effort);
  },
  // biome-ignore lint/suspicious/noThenProperty: the keyword's name
  then: validateSubschema,
  else: validateSubschema,
  dependentSchemas(given, place) {
    const dependent = [...compileSchemaMap(given, place)];
    return createObjectCheck((value, effort) =>
      dependent.every(([name, check]) => !Object.hasOwn(value, name) || check(value, effort)),
    );
  },

  // Keywords for values of any type.
  type(given, { pointer }) {
    const names = Array.isArray(given) ? given : [given];
    const checks = names.map((name) => (Object.hasOwn(typeChecks, name) ? typeChecks[name] : undefined));
    if (checks.length === 0 || !checks.every((check) => check !== undefined)) throw createValueError(pointer);
    return (value) => checks.some((check) => check(value));
  },
  enum(given, { pointer }) {
    const allowed = new Set(requireList(given, pointer).map((each) => canonicalize(each)));
    return (value, effort) => allowed.has(canonicalize(value, effort));
  },
  const(given) {
    const wanted = canonicalize(given);
    return (value, effort) => canonicalize(value, effort) === wanted;
  },

  // Keywords for numbers.
  minimum: createNumberCheck((value, limit) => value >= limit),
  maximum: createNumberCheck((value, limit) => value <= limit),
  exclusiveMinimum: createNumberCheck((value, limit) => value > limit),
  exclusiveMaximum: createNumberCheck((value, limit) => value < limit),
  multipleOf(given, { pointer }) {
    if (typeof given !== "number" || given <= 0) throw createValueError(pointer);
    return (value) => typeof value !== "number" || isMultiple(value, given);
  },

  // Keywords for strings. Length is counted in characters.
  minLength: createSizeCheck(countCharacters, (length, limit) => length >= limit),
  maxLength: createSizeCheck(countCharacters, (length, limit) => length <= limit),
  pattern(given, { pointer, compilePattern }) {
    const matches = compilePattern(requireText(given, pointer), pointer);
    return (value, effort) => typeof value !== "string" || matches(value, effort);
  },

  // Keywords for arrays.
  minItems: createSizeCheck(countItems, (items, limit) => items >= limit),
  maxItems: createSizeCheck(countItems, (items, limit) => items <= limit),
  uniqueItems(given, { pointer }) {
    if (typeof given !== "boolean") throw createValueError(pointer);
    return (value, effort) =>
      !given || !Array.isArray(value) || new Set(value.map((each) => canonicalize(each, effort))).size === value.length;
  },
  prefixItems(given, place) {
    const first = compileSchemas(given, place);
    return (value, effort) =>
      !Array.isArray(value) || value.slice(0, first.length).every((each, at) => first[at]?.(each, effort));
  },
  items(given, { schema, compile, pointer }) {
    const rest = compile(given, pointer);
    const from = Array.isArray(schema.prefixItems) ? schema.prefixItems.length : 0;
    return (value, effort) => !Array.isArray(value) || value.slice(from).every((each) => rest(each, effort));
  },
  contains(given, { schema, compile, pointer }) {
    const wanted = compile(given, pointer);
    const { minContains: min = 1, maxContains: max = Number.POSITIVE_INFINITY } = schema;
    return (value, effort) => {
      if (!Array.isArray(value)) return true;
      const found = value.filter((each) => wanted(each, effort)).length;
      return found >= (min as number) && found <= (max as number);
    };
  },
  minContains: countOnly,
  maxContains: countOnly,

  // Keywords for objects.
  properties(given, place) {
    const named = compileSchemaMap(given, place);
    return createObjectCheck((value, effort) =>
      Object.entries(value).every(([name, each]) => named.get(name)?.(each, effort) ?? true),
    );
  },
  patternProperties(given, place) {
    const matching = compilePatternMap(given, place);
    return createObjectCheck((value, effort) =>
      Object.entries(value).every(([name, each]) =>
        matching.every(({ matches, check }) => !matches(name, effort) || check(each, effort)),
      ),
    );
  },
  additionalProperties(given, place) {
    const { schema, pointer } = place;
    const other = place.compile(given, pointer);
    const named = new Set(Object.keys(isObject(schema.properties) ? schema.properties : {}));
    const patternPlace = { ...place, pointer: pointer.replace(/[^/]*$/, "patternProperties") };
    const matching = compilePatternMap(schema.patternProperties ?? {}, patternPlace);
    return createObjectCheck((value, effort) =>
      Object.entries(value).every(
        ([name, each]) =>
          named.has(name) || matching.some(({ matches }) => matches(name, effort)) || other(each, effort),
      ),
    );
  },
  propertyNames(given, { compile, pointer }) {
    const check = compile(given, pointer);
    return createObjectCheck((value, effort) => Object.keys(value).every((name) => check(name, effort)));
  },
  required(given, { pointer }) {
    const names = requireList(given, pointer).map((name) => requireText(name, pointer));
    return createObjectCheck((value, effort) => {
      effort.spend(names.length);
      return names.every((name) => Object.hasOwn(value, name));
    });
  },
  dependentRequired(given, { pointer }) {
    if (!isObject(given)) throw createValueError(pointer);
    const dependent = Object.entries(given).map(
      ([name, others]) => [name, requireList(others, pointer).map((other) => requireText(other, pointer))] as const,
    );
    return createObjectCheck((value, effort) => {
      effort.spend(dependent.length);
      return dependent.every(
        ([name, others]) => !Object.hasOwn(value, name) || others.every((other) => Object.hasOwn(value, other)),
      );
    });
  },
  minProperties: createSizeCheck(propertiesOf, (count, limit) => count >= limit),
  maxProperties: createSizeCheck(propertiesOf, (count, limit) => count <= limit),

  // Subschemas that apply only where a reference points to them.
  $defs: compileDefinitions,
  definitions: compileDefinitions,
} satisfies Record<string, CreateKeywordCheck>;

function compileDefinitions(given: unknown, place: KeywordContext): undefined {
  compileSchemaMap(given, place);
}

/** Compiles `then` and `else` only to validate them. They have no effect without `if`. */
function validateSubschema(given: unknown, { compile, pointer }: KeywordContext): undefined {
  compile(given, pointer);
}

function countOnly(given: unknown, { pointer }: KeywordContext): undefined {
  requireCount(given, pointer);
}

function createNumberCheck(holds: (value: number, limit: number) => boolean): CreateKeywordCheck {
  return (given, { pointer }) => {
    if (typeof given !== "number") throw createValueError(pointer);
    return (value) => typeof value !== "number" || holds(value, given);
  };
}

function createSizeCheck(
  measure: (value: unknown) => number | undefined,
  holds: (size: number, limit: number) => boolean,
): CreateKeywordCheck {
  return (given, { pointer }) => {
    const limit = requireCount(given, pointer);
    return (value, effort) => {
      const measured = measure(value);
      if (measured === undefined) return true;
      effort.spend(measured / 64);
      return holds(measured, limit);
    };
  };
}

function countCharacters(value: unknown): number | undefined {
  if (typeof value !== "string") return undefined;
  let length = 0;
  for (const _ of value) length += 1;
  return length;
}

function countItems(value: unknown): number | undefined {
  return Array.isArray(value) ? value.length : undefined;
}

function propertiesOf(value: unknown): number | undefined {
  return isObject(value) ? Object.keys(value).length : undefined;
}

/** Returns whether a value is a multiple of another, within floating-point precision: 0.3 is a multiple of 0.1. */
function isMultiple(value: number, of: number): boolean {
  const times = value / of;
  return Number.isFinite(times) && Math.abs(times - Math.round(times)) <= 1e-9 * Math.max(1, Math.abs(times));
}

function createObjectCheck(check: (value: Record<string, unknown>, effort: Parameters<Check>[1]) => boolean): Check {
  return (value, effort) => {
    if (!isObject(value)) return true;
    effort.spend(Object.keys(value).length / 2);
    return check(value, effort);
  };
}

function compileSchemas(given: unknown, { compile, pointer }: KeywordContext): Check[] {
  const all = requireList(given, pointer);
  if (all.length === 0) throw createValueError(pointer);
  return all.map((each, index) => compile(each, `${pointer}/${index}`));
}

function compileSchemaMap(given: unknown, { compile, pointer }: KeywordContext): Map<string, Check> {
  if (!isObject(given)) throw createValueError(pointer);
  return new Map(Object.entries(given).map(([name, each]) => [name, compile(each, `${pointer}/${name}`)]));
}

function compilePatternMap(given: unknown, place: KeywordContext) {
  return [...compileSchemaMap(given, place)].map(([name, check]) => ({
    matches: place.compilePattern(name, place.pointer),
    check,
  }));
}

function requireList(given: unknown, pointer: string): unknown[] {
  if (!Array.isArray(given)) throw createValueError(pointer);
  return given;
}

function requireText(given: unknown, pointer: string): string {
  if (typeof given !== "string") throw createValueError(pointer);
  return given;
}

function requireCount(given: unknown, pointer: string): number {
  if (typeof given !== "number" || !Number.isInteger(given) || given < 0) throw createValueError(pointer);
  return given;
}

function createValueError(pointer: string): UnsupportedSchema {
  return new UnsupportedSchema(`${pointer} cannot have this value.`);
}
