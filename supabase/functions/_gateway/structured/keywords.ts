import { isObject } from "../../_shared/json.ts";
import { canonical } from "./canonical.ts";
import { type Check, type Place, UnsupportedSchema } from "./check.ts";

/**
 * Creates a keyword's check, or returns undefined if the keyword has no effect of its own.
 * @throws UnsupportedSchema for an invalid value
 */
type Make = (given: unknown, place: Place) => Check | undefined;
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
    const target = resolve(text(given, pointer), pointer);
    return (value, effort) => effort.descend(target, value);
  },
  allOf(given, place) {
    const all = schemas(given, place);
    return (value, effort) => all.every((each) => each(value, effort));
  },
  anyOf(given, place) {
    const any = schemas(given, place);
    return (value, effort) => any.some((each) => each(value, effort));
  },
  oneOf(given, place) {
    const one = schemas(given, place);
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
  then: nested,
  else: nested,
  dependentSchemas(given, place) {
    const dependent = [...schemaMap(given, place)];
    return ofObjects((value, effort) =>
      dependent.every(([name, check]) => !Object.hasOwn(value, name) || check(value, effort)),
    );
  },

  // Keywords for values of any type.
  type(given, { pointer }) {
    const names = Array.isArray(given) ? given : [given];
    const checks = names.map((name) => (Object.hasOwn(typeChecks, name) ? typeChecks[name] : undefined));
    if (checks.length === 0 || !checks.every((check) => check !== undefined)) throw unsupported(pointer);
    return (value) => checks.some((check) => check(value));
  },
  enum(given, { pointer }) {
    const allowed = new Set(list(given, pointer).map((each) => canonical(each)));
    return (value, effort) => allowed.has(canonical(value, effort));
  },
  const(given) {
    const wanted = canonical(given);
    return (value, effort) => canonical(value, effort) === wanted;
  },

  // Keywords for numbers.
  minimum: bound((value, limit) => value >= limit),
  maximum: bound((value, limit) => value <= limit),
  exclusiveMinimum: bound((value, limit) => value > limit),
  exclusiveMaximum: bound((value, limit) => value < limit),
  multipleOf(given, { pointer }) {
    if (typeof given !== "number" || given <= 0) throw unsupported(pointer);
    return (value) => typeof value !== "number" || isMultiple(value, given);
  },

  // Keywords for strings. Length is counted in characters.
  minLength: size(lengthOf, (length, limit) => length >= limit),
  maxLength: size(lengthOf, (length, limit) => length <= limit),
  pattern(given, { pointer, compilePattern }) {
    const matches = compilePattern(text(given, pointer), pointer);
    return (value, effort) => typeof value !== "string" || matches(value, effort);
  },

  // Keywords for arrays.
  minItems: size(itemsOf, (items, limit) => items >= limit),
  maxItems: size(itemsOf, (items, limit) => items <= limit),
  uniqueItems(given, { pointer }) {
    if (typeof given !== "boolean") throw unsupported(pointer);
    return (value, effort) =>
      !given || !Array.isArray(value) || new Set(value.map((each) => canonical(each, effort))).size === value.length;
  },
  prefixItems(given, place) {
    const first = schemas(given, place);
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
    const named = schemaMap(given, place);
    return ofObjects((value, effort) =>
      Object.entries(value).every(([name, each]) => named.get(name)?.(each, effort) ?? true),
    );
  },
  patternProperties(given, place) {
    const matching = patternMap(given, place);
    return ofObjects((value, effort) =>
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
    const matching = patternMap(schema.patternProperties ?? {}, patternPlace);
    return ofObjects((value, effort) =>
      Object.entries(value).every(
        ([name, each]) =>
          named.has(name) || matching.some(({ matches }) => matches(name, effort)) || other(each, effort),
      ),
    );
  },
  propertyNames(given, { compile, pointer }) {
    const check = compile(given, pointer);
    return ofObjects((value, effort) => Object.keys(value).every((name) => check(name, effort)));
  },
  required(given, { pointer }) {
    const names = list(given, pointer).map((name) => text(name, pointer));
    return ofObjects((value, effort) => {
      effort.spend(names.length);
      return names.every((name) => Object.hasOwn(value, name));
    });
  },
  dependentRequired(given, { pointer }) {
    if (!isObject(given)) throw unsupported(pointer);
    const dependent = Object.entries(given).map(
      ([name, others]) => [name, list(others, pointer).map((other) => text(other, pointer))] as const,
    );
    return ofObjects((value, effort) => {
      effort.spend(dependent.length);
      return dependent.every(
        ([name, others]) => !Object.hasOwn(value, name) || others.every((other) => Object.hasOwn(value, other)),
      );
    });
  },
  minProperties: size(propertiesOf, (count, limit) => count >= limit),
  maxProperties: size(propertiesOf, (count, limit) => count <= limit),

  // Subschemas that apply only where a reference points to them.
  $defs: definitions,
  definitions,
} satisfies Record<string, Make>;

function definitions(given: unknown, place: Place): undefined {
  schemaMap(given, place);
}

/** Compiles `then` and `else` only to validate them. They have no effect without `if`. */
function nested(given: unknown, { compile, pointer }: Place): undefined {
  compile(given, pointer);
}

function countOnly(given: unknown, { pointer }: Place): undefined {
  count(given, pointer);
}

function bound(holds: (value: number, limit: number) => boolean): Make {
  return (given, { pointer }) => {
    if (typeof given !== "number") throw unsupported(pointer);
    return (value) => typeof value !== "number" || holds(value, given);
  };
}

function size(measure: (value: unknown) => number | undefined, holds: (size: number, limit: number) => boolean): Make {
  return (given, { pointer }) => {
    const limit = count(given, pointer);
    return (value, effort) => {
      const measured = measure(value);
      if (measured === undefined) return true;
      effort.spend(measured / 64);
      return holds(measured, limit);
    };
  };
}

function lengthOf(value: unknown): number | undefined {
  if (typeof value !== "string") return undefined;
  let length = 0;
  for (const _ of value) length += 1;
  return length;
}

function itemsOf(value: unknown): number | undefined {
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

function ofObjects(check: (value: Record<string, unknown>, effort: Parameters<Check>[1]) => boolean): Check {
  return (value, effort) => {
    if (!isObject(value)) return true;
    effort.spend(Object.keys(value).length / 2);
    return check(value, effort);
  };
}

function schemas(given: unknown, { compile, pointer }: Place): Check[] {
  const all = list(given, pointer);
  if (all.length === 0) throw unsupported(pointer);
  return all.map((each, index) => compile(each, `${pointer}/${index}`));
}

function schemaMap(given: unknown, { compile, pointer }: Place): Map<string, Check> {
  if (!isObject(given)) throw unsupported(pointer);
  return new Map(Object.entries(given).map(([name, each]) => [name, compile(each, `${pointer}/${name}`)]));
}

function patternMap(given: unknown, place: Place) {
  return [...schemaMap(given, place)].map(([name, check]) => ({
    matches: place.compilePattern(name, place.pointer),
    check,
  }));
}

function list(given: unknown, pointer: string): unknown[] {
  if (!Array.isArray(given)) throw unsupported(pointer);
  return given;
}

function text(given: unknown, pointer: string): string {
  if (typeof given !== "string") throw unsupported(pointer);
  return given;
}

function count(given: unknown, pointer: string): number {
  if (typeof given !== "number" || !Number.isInteger(given) || given < 0) throw unsupported(pointer);
  return given;
}

function unsupported(pointer: string): UnsupportedSchema {
  return new UnsupportedSchema(`${pointer} cannot have this value.`);
}
