import { z } from "zod";
import type { Turn } from "../tools/tool-loop.ts";

const text = z
  .string()
  .nullish()
  .transform((value) => value ?? "");
const message = z.looseObject({
  tool_calls: z
    .array(
      z.looseObject({
        id: text,
        function: z.looseObject({ name: z.string(), arguments: text }),
      }),
    )
    .nullish(),
});
const completion = z.looseObject({ choices: z.array(z.looseObject({ message: z.unknown() })).min(1) });

/** The first message of a whole chat completion and the tools that it calls; empty if it has none. */
export function readMessage(answer: unknown): Turn {
  return turnOf(completion.safeParse(answer).data?.choices[0]?.message);
}

/** An assistant's message, which goes back to the provider as it came, and the tools that it calls. */
export function turnOf(value: unknown): Turn {
  const { success, data } = message.safeParse(value);
  if (!success) return { said: [], toolCalls: [] };
  const toolCalls = (data.tool_calls ?? []).map(({ id, function: { name, arguments: text } }) => ({
    id,
    name,
    arguments: text,
  }));
  return { said: [value as object], toolCalls };
}
