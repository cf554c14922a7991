import { z } from "zod";
import type { SaidTexts } from "../structured/answer-schema.ts";

const completion = z.looseObject({
  choices: z.array(
    z.looseObject({
      message: z.looseObject({ content: z.string().nullish(), tool_calls: z.array(z.unknown()).nullish() }),
    }),
  ),
});

/** What a whole chat completion says in its choices, those that call functions left out. */
export function saidInChat(value: unknown): SaidTexts {
  const choices = completion.safeParse(value).data?.choices ?? [];
  return choices.flatMap(({ message }) => (message.tool_calls?.length ? [] : [message.content ?? null]));
}
