import type { z } from "zod";

/**
 * Parses bodies by a strict schema of many fields, as its `safeParse` does, but looks only at those that are given. The
 * schema itself looks at each that it knows, given or not, which is most of what a short body takes.
 * Bodies are values of JSON.
 * @param schema has no defaults, no checks of its own beside its fields', and no symbols
 * @returns fields in the order in which they are given; of a body that is refused, all that the schema says of it
 */
export function parserOfGivenFields<Output>(
  schema: z.ZodObject & z.ZodType<Output>,
): (body: unknown) => z.ZodSafeParseResult<Output> {
  const fields = new Map(Object.entries(schema.shape));
  const required = [...fields].filter(([, field]) => !field.safeParse(undefined).success).map(([name]) => name);

  /** Undefined where anything is amiss. */
  function read(body: object): Record<string, unknown> | undefined {
    const given: Record<string, unknown> = {};
    const entries = Object.entries(body);
    // First, since the schema would read all the values once more.
    if (!entries.every(([name]) => fields.has(name))) return undefined;
    for (const [name, value] of entries) {
      const parsed = fields.get(name)?.safeParse(value);
      if (!parsed?.success) return undefined;
      given[name] = parsed.data;
    }
    return required.every((name) => Object.hasOwn(given, name)) ? given : undefined;
  }

  return (body) => {
    const isObject = typeof body === "object" && body !== null && !Array.isArray(body);
    const data = isObject ? read(body) : undefined;
    return data ? { success: true, data: data as Output } : schema.safeParse(body);
  };
}
