import type { Schema } from "./documents.ts";

/** One line of a schema's description, with its nested lines. */
export interface SchemaLine {
  /** Absent for an alternative or an item, which has no name of its own. */
  name?: string;
  type: string;
  required: boolean;
  /** Limits and the default value, such as `1–10 items`. */
  notes: readonly string[];
  description?: string | undefined;
  children: readonly SchemaLine[];
}

type Resolve = (ref: string) => Schema;
/** Maximum depth; deeper shapes appear only in the JSON. */
const maxDepth = 8;

/** Returns the lines that describe the members of an object, or of the objects in a list. */
export function schemaLines(schema: Schema, resolve: Resolve, depth = 0): readonly SchemaLine[] {
  if (depth > maxDepth) return [];
  const { properties, required = [], items, additionalProperties, ...rest } = resolveRef(schema, resolve);
  const alternatives = alternativesOf(rest).filter(({ type }) => type !== "null");
  if (properties) {
    return Object.entries(properties).map(([name, property]) =>
      lineOf(property, { resolve, depth, name, required: required.includes(name) }),
    );
  }
  if (items) return childrenOfItems(items, { resolve, depth });
  if (alternatives.length === 1 && alternatives[0]) return schemaLines(alternatives[0], resolve, depth);
  if (alternatives.some((each) => hasNestedSchema(resolveRef(each, resolve)))) {
    return alternatives.map((each) => lineOf(each, { resolve, depth, required: false }));
  }
  if (typeof additionalProperties === "object" && hasNestedSchema(additionalProperties)) {
    return [lineOf(additionalProperties, { resolve, depth, name: "(any name)", required: false })];
  }
  return [];
}

/** Describes a schema's type in a few words: `string`, `array of object`, `"a" | "b"`, `number or null`. */
export function describeType(schema: Schema, resolve: Resolve): string {
  const { type, format, items, ...rest } = resolveRef(schema, resolve);
  if (rest.const !== undefined) return JSON.stringify(rest.const);
  if (rest.enum) return rest.enum.map((value) => JSON.stringify(value)).join(" | ");
  const alternatives = alternativesOf(rest);
  if (alternatives.length > 0)
    return [...new Set(alternatives.map((each) => describeType(each, resolve)))].join(" or ");
  if (items) return `array of ${describeType(items, resolve)}`;
  if (Array.isArray(type)) return type.join(" or ");
  if (format) return formatLabels[format] ?? format;
  return typeof type === "string" ? type : "anything";
}

const formatLabels: Record<string, string> = {
  uuid: "uuid",
  "date-time": "time (RFC 3339)",
  date: "day (YYYY-MM-DD)",
  uri: "URL",
};

function lineOf(
  schema: Schema,
  { resolve, depth, name, required }: { resolve: Resolve; depth: number; name?: string; required: boolean },
): SchemaLine {
  const resolvedSchema = resolveRef(schema, resolve);
  return {
    ...(name === undefined ? {} : { name }),
    type: describeType(schema, resolve),
    required,
    notes: listConstraintNotes(resolvedSchema),
    description: resolvedSchema.description,
    children: schemaLines(schema, resolve, depth + 1),
  };
}

function childrenOfItems(items: Schema, { resolve, depth }: { resolve: Resolve; depth: number }) {
  return schemaLines(items, resolve, depth);
}

function hasNestedSchema({ properties, items, anyOf, oneOf }: Schema): boolean {
  return properties !== undefined || items !== undefined || anyOf !== undefined || oneOf !== undefined;
}

function alternativesOf({ anyOf, oneOf }: Schema): readonly Schema[] {
  return anyOf ?? oneOf ?? [];
}

function resolveRef(schema: Schema, resolve: Resolve): Schema {
  return schema.$ref ? resolve(schema.$ref) : schema;
}

function listConstraintNotes(schema: Schema): string[] {
  const alternatives = alternativesOf(schema);
  const one = alternatives.find(({ type }) => type !== "null");
  const described = alternatives.length === 2 && one ? { ...schema, ...one } : schema;
  const { minimum, maximum, minLength, maxLength, minItems, maxItems, pattern } = described;
  return [
    ...describeRange(minimum, maximum === Number.MAX_SAFE_INTEGER ? undefined : maximum, ""),
    ...describeRange(minLength, maxLength, " character"),
    ...describeRange(minItems, maxItems, " item"),
    ...(pattern ? [`matches ${pattern}`] : []),
    ...(schema.default === undefined ? [] : [`default ${JSON.stringify(schema.default)}`]),
  ];
}

function describeRange(min: number | undefined, max: number | undefined, noun: string): string[] {
  const what = noun === "" || (max ?? min) === 1 ? noun : `${noun}s`;
  const from = min === undefined || min <= Number.MIN_SAFE_INTEGER ? undefined : min.toLocaleString("en-US");
  const to = max?.toLocaleString("en-US");
  if (from !== undefined && to !== undefined) return [from === to ? `${from}${what}` : `${from}–${to}${what}`];
  if (from !== undefined) return [`at least ${from}${what}`];
  return to === undefined ? [] : [`at most ${to}${what}`];
}
