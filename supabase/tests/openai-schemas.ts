import { fileURLToPath } from "node:url";
import { createGenerator, type Schema } from "ts-json-schema-generator";
import { compileSchema } from "../functions/_gateway/structured/json-schema.ts";
import type { Published } from "./openai-types.ts";

type Kind = keyof Published;

/** Says what is wrong with a value that should be as OpenAI publishes it; nothing where it is. */
export type PublishedSchemas = (kind: Kind, value: unknown) => string | undefined;

/**
 * Makes JSON Schemas of the types that OpenAI's own client publishes, which it generates from OpenAI's API document.
 * Takes seconds: once a file.
 */
export function readPublishedSchemas(): PublishedSchemas {
  const whole = createGenerator({
    path: fileURLToPath(new URL("./openai-types.ts", import.meta.url)),
    type: "Published",
    expose: "none",
    topRef: false,
    jsDoc: "none",
    skipTypeCheck: true,
    additionalProperties: true,
  }).createSchema("Published");
  const schemas = whole.properties as Record<Kind, Schema>;
  const checks = new Map<object, ReturnType<typeof compileSchema>>();

  function conforms(schema: Schema, value: unknown): boolean | undefined {
    const check = checks.get(schema) ?? compileSchema(schema);
    checks.set(schema, check);
    return check(value);
  }

  /** An event's alternatives are many and large: the one of its type alone. */
  function alternative(kind: Kind, value: unknown): Schema | undefined {
    if (kind !== "event") return schemas[kind];
    const { type } = value as { type?: unknown };
    return schemas.event.anyOf?.find(
      (each) => (each as Schema & { properties: { type: { const: unknown } } }).properties.type.const === type,
    ) as Schema | undefined;
  }

  return (kind, value) => {
    const schema = alternative(kind, value);
    if (!schema) return `no ${kind} is of type ${(value as { type?: unknown }).type}`;
    const outcome = conforms(withoutOwnAdditions(schema), value);
    return outcome
      ? undefined
      : `${outcome === undefined ? "beyond checking" : "no"} ${kind}: ${JSON.stringify(value)}`;
  };

  /** What holds a whole response does so without the text that only the client's own objects have. */
  function withoutOwnAdditions(schema: Schema): Schema {
    const held = (schema.properties as Record<string, Schema> | undefined)?.response;
    if (held?.required) held.required = held.required.filter((name) => name !== "output_text");
    return schema;
  }
}
