import { z } from "zod";
import { amountText } from "../../remix-app/ui/format-amount.ts";

/** A JSON Schema of the 2020-12 draft, which is OpenAPI 3.1's. */
export type JsonSchema = Record<string, unknown>;

/** Formats that say by themselves what a text looks like, by zod's name for them. */
const telling: Record<string, string> = {
  uuid: "uuid",
  datetime: "date-time",
  date: "date",
  email: "email",
  url: "uri",
};

/**
 * A zod schema as JSON Schema: of a body as it is sent (`input`), or of an answer as it arrives (`output`), in which
 * nothing may be that the schema does not name.
 * @throws Error for a schema that has no such form
 */
export function jsonSchemaOf(schema: z.ZodType, io: "input" | "output"): JsonSchema {
  const { $schema: _, ...made } = z.toJSONSchema(schema, {
    io,
    target: "draft-2020-12",
    // Money comes in as a number's own digits (JsonNumber).
    unrepresentable: ({ zodSchema }) =>
      definitionOf(zodSchema).type === "custom" ? { type: "number", minimum: 0 } : "throw",
    override: ({ zodSchema, jsonSchema }) => {
      const texts = jsonSchema as JsonSchema;
      // Amounts are exact texts within the server, and JSON numbers with the same digits outside.
      if ((zodSchema as unknown) === amountText) {
        texts.type = "number";
        delete texts.pattern;
      }
      const def = definitionOf(zodSchema);
      const format = "format" in def ? telling[String(def.format)] : undefined;
      if (format) {
        texts.format = format;
        delete texts.pattern;
        delete texts.allOf;
      }
      // What the server's own code may not change is nothing to a client.
      delete texts.readOnly;
    },
  });
  return made;
}

/** zod passes its core types to these callbacks; the schemas are its classic ones, whose `def` is public. */
function definitionOf(schema: unknown): z.ZodType["def"] {
  return (schema as z.ZodType).def;
}
