import { z } from "zod";
import { createCompletionEvent, notStored } from "./events.ts";

const part = z.looseObject({ type: z.string(), text: z.string().optional(), refusal: z.string().optional() });
const item = z.looseObject({
  id: z.string().optional(),
  type: z.string(),
  content: z.array(part).nullish().catch(undefined),
  arguments: z.string().optional(),
});
const storedResponse = z.looseObject({
  status: z.string(),
  output: z.array(item),
  platform: z.record(z.string(), z.unknown()),
});
type Item = z.infer<typeof item>;
type Part = z.infer<typeof part>;
type Event = { type: string } & Record<string, unknown>;

/** Returns a stored response as a stream of response events, with each text in a single delta. */
export function replayResponse(answer: unknown): string {
  const { platform, ...response } = storedResponse.parse(answer);
  const { usage, ...head } = response;
  const initial = { ...head, ...notStored, status: "in_progress", output: [], incomplete_details: null };
  const events: Event[] = [
    { type: "response.created", response: initial },
    { type: "response.in_progress", response: initial },
    ...response.output.flatMap(itemEvents),
  ];
  const last = { type: `response.${response.status === "incomplete" ? "incomplete" : "completed"}`, response };
  const lines = events.map((event, sequence_number) => {
    const { type, ...rest } = event;
    return `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number, ...rest })}\n\n`;
  });
  return lines.join("") + createCompletionEvent({ ...last, sequence_number: events.length }, platform);
}

function itemEvents(whole: Item, output_index: number): Event[] {
  const at = { output_index, item_id: whole.id };
  const done: Event = { type: "response.output_item.done", output_index, item: whole };
  const added = (empty: object): Event => ({
    type: "response.output_item.added",
    output_index,
    item: { ...whole, status: "in_progress", ...empty },
  });
  if (whole.type === "function_call") {
    const text = whole.arguments ?? "";
    return [
      added({ arguments: "" }),
      { type: "response.function_call_arguments.delta", ...at, delta: text },
      { type: "response.function_call_arguments.done", ...at, name: whole.name, arguments: text },
      done,
    ];
  }
  if (whole.type !== "message") return [added({}), done];
  const parts = whole.content ?? [];
  return [
    added({ content: [] }),
    ...parts.flatMap((each, index) => partEvents(each, { ...at, content_index: index })),
    done,
  ];
}

function partEvents(whole: Part, at: object): Event[] {
  const kind = whole.type === "refusal" ? "refusal" : "text";
  const name = kind === "refusal" ? "response.refusal" : "response.output_text";
  const text = whole[kind] ?? "";
  const logprobs = kind === "text" ? { logprobs: [] } : {};
  return [
    { type: "response.content_part.added", ...at, part: { ...whole, [kind]: "" } },
    { type: `${name}.delta`, ...at, delta: text, ...logprobs },
    { type: `${name}.done`, ...at, [kind]: text, ...logprobs },
    { type: "response.content_part.done", ...at, part: whole },
  ];
}
