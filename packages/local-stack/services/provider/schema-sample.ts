type Schema = Record<string, unknown>;
type Context = { root: Schema; depth: number };

/**
 * Beyond this depth, optional properties and array items are left out, so that samples of recursive schemas are finite.
 */
const maxDepth = 4;

/**
 * Returns a value that conforms to a JSON Schema, within the limits of structured outputs. A schema always gives the
 * same value.
 */
export function sampleOf(schema: unknown): unknown {
  const root = isObject(schema) ? schema : {};
  return sample(root, { root, depth: 0 });
}

function sample(schema: unknown, context: Context): unknown {
  if (!isObject(schema)) return null;
  if (typeof schema.$ref === "string") return sample(resolve(schema.$ref, context.root), deeper(context));
  if ("const" in schema) return schema.const;
  if (Array.isArray(schema.examples) && schema.examples.length > 0) return schema.examples[0];
  if (Array.isArray(schema.enum)) return schema.enum[0];
  const union = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(union)) return sample(context.depth >= maxDepth ? shallowest(union) : union[0], deeper(context));
  if (Array.isArray(schema.allOf)) return sample(merge(schema, schema.allOf), deeper(context));
  const type = Array.isArray(schema.type) ? schema.type[0] : (schema.type ?? guessType(schema));
  switch (type) {
    case "object":
      return sampleObject(schema, context);
    case "array":
      return sampleArray(schema, context);
    case "integer":
    case "number":
      return sampleNumber(schema, type);
    case "boolean":
      return true;
    case "null":
      return null;
    default:
      return sampleString(schema);
  }
}

function sampleObject(schema: Schema, context: Context): Schema {
  const properties = isObject(schema.properties) ? schema.properties : {};
  const required = Array.isArray(schema.required) ? schema.required : [];
  const included = Object.entries(properties).filter(([name]) => context.depth < maxDepth || required.includes(name));
  return Object.fromEntries(included.map(([name, property]) => [name, sample(property, deeper(context))]));
}

function sampleArray(schema: Schema, context: Context): unknown[] {
  const free = context.depth < maxDepth ? 1 : 0;
  const least = typeof schema.minItems === "number" ? schema.minItems : free;
  const most = typeof schema.maxItems === "number" ? schema.maxItems : least;
  return Array.from({ length: Math.min(Math.max(least, 0), most) }, () => sample(schema.items ?? {}, deeper(context)));
}

function sampleNumber(schema: Schema, type: string): number {
  const step = typeof schema.multipleOf === "number" ? schema.multipleOf : type === "integer" ? 1 : 0.5;
  if (typeof schema.minimum === "number") return Math.ceil(schema.minimum / step) * step;
  if (typeof schema.exclusiveMinimum === "number") return (Math.floor(schema.exclusiveMinimum / step) + 1) * step;
  if (typeof schema.maximum === "number" && schema.maximum < step) return Math.floor(schema.maximum / step) * step;
  return step;
}

const byFormat: Record<string, string> = {
  date: "2026-01-01",
  "date-time": "2026-01-01T00:00:00Z",
  time: "00:00:00Z",
  duration: "PT1S",
  email: "demo@example.com",
  hostname: "example.com",
  ipv4: "192.0.2.1",
  ipv6: "2001:db8::1",
  uuid: "00000000-0000-4000-8000-000000000000",
};

function sampleString({ format, minLength, maxLength }: Schema): string {
  if (typeof format === "string" && byFormat[format]) return byFormat[format];
  const text = "demo".padEnd(typeof minLength === "number" ? minLength : 0, ".");
  return typeof maxLength === "number" ? text.slice(0, maxLength) : text;
}

function guessType(schema: Schema): string {
  if ("properties" in schema) return "object";
  return "items" in schema ? "array" : "string";
}

function shallowest(union: unknown[]): unknown {
  return union.find((schema) => isObject(schema) && schema.type !== "object" && !schema.$ref) ?? union[0];
}

function merge(schema: Schema, all: unknown[]): Schema {
  const { allOf, ...own } = schema;
  const parts = [own, ...all.filter(isObject)];
  const properties = Object.assign({}, ...parts.map((part) => part.properties));
  const required = parts.flatMap((part) => (Array.isArray(part.required) ? part.required : []));
  return Object.assign({}, ...parts, Object.keys(properties).length > 0 ? { properties, required } : {});
}

function resolve(pointer: string, root: Schema): unknown {
  const steps = pointer.replace(/^#\/?/, "").split("/").filter(Boolean);
  return steps.reduce<unknown>(
    (node, step) => (isObject(node) ? node[step.replaceAll("~1", "/").replaceAll("~0", "~")] : undefined),
    root,
  );
}

function deeper({ root, depth }: Context): Context {
  return { root, depth: depth + 1 };
}

function isObject(value: unknown): value is Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
