import { z } from "zod";
import type { SaidTexts } from "../structured/answer-schema.ts";

const part = z.looseObject({ type: z.string(), text: z.string().optional() });
const response = z.looseObject({
  output: z.array(z.looseObject({ type: z.string(), content: z.array(part).nullish().catch(undefined) })),
});

const calls = new Set(["function_call", "custom_tool_call", "tool_search_call"]);

/** What a response says: its last message, unless it calls functions. */
export function saidInResponse(value: unknown): SaidTexts {
  const { output } = response.safeParse(value).data ?? { output: [] };
  if (output.some(({ type }) => calls.has(type))) return [];
  const content = output.findLast(({ type }) => type === "message")?.content;
  if (!content) return [null];
  if (content.some(({ type }) => type === "refusal")) return [null];
  return [content.map(({ text = "" }) => text).join("")];
}
