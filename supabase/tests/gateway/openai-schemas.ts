import { fileURLToPath } from "node:url";
import { createGenerator, type Schema } from "ts-json-schema-generator";
import { compileSchema } from "../../functions/_gateway/structured/json-schema.ts";
import type { Published } from "./openai-types.ts";

type Kind = keyof Published;

/** Returns how a value differs from OpenAI's published type, or undefined if it conforms. */
export type PublishedSchemas = (kind: Kind, value: unknown) => string | undefined;

/**
 * Creates JSON Schemas of the types in OpenAI's own client, which is generated from OpenAI's API document. Takes
 * seconds, so call it once per file.
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

  /** Returns only the alternative for an event's type, because all of them together are large. */
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

  /** Makes `output_text` of an embedded response optional, because only the objects of OpenAI's own client have it. */
  function withoutOwnAdditions(schema: Schema): Schema {
    const held = (schema.properties as Record<string, Schema> | undefined)?.response;
    if (held?.required) held.required = held.required.filter((name) => name !== "output_text");
    return schema;
  }
}
