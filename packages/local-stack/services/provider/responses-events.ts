import type { Behaviour } from "./behaviours.ts";
import { type Choice, type Completion, calledBy } from "./completion.ts";
import { fullWindow } from "./errors.ts";
import { type StreamPiece, sseEvent } from "./event-stream.ts";
import { countTokens, noUsage, responseUsage, type Usage } from "./usage.ts";

type Item = Record<string, unknown>;

/** Returns a finished response as one body. */
export function responseBody(completion: Completion, behaviour: Behaviour) {
  const [choice] = completion.choices;
  const isTruncated = choice?.finish === "length";
  return {
    ...responseHead(completion),
    status: isTruncated ? "incomplete" : "completed",
    incomplete_details: isTruncated ? { reason: "max_output_tokens" } : null,
    output: choice ? [outputItem(completion, choice)] : [],
    usage: behaviour.usage === "none" ? null : responseUsage(behaviour.usage === "zero" ? noUsage : completion.usage),
  };
}

/** Returns a finished response as events in OpenAI's order. The last one contains the whole response and its usage. */
export function responseEvents(completion: Completion, behaviour: Behaviour): StreamPiece[] {
  const { input, cachedInput, reasoning } = completion.usage;
  const started = {
    ...responseHead(completion),
    status: "in_progress",
    incomplete_details: null,
    output: [],
  };
  const body = responseBody(completion, behaviour);
  const before: Usage = { input, cachedInput, output: reasoning, reasoning };
  const [choice] = completion.choices;
  const pieces: (Omit<StreamPiece, "text"> & { type: string; data: Item })[] = [
    { type: "response.created", data: { response: started }, usage: before },
    { type: "response.in_progress", data: { response: started }, usage: before },
    ...(choice ? itemEvents(completion, choice, before) : []),
    {
      type: body.status === "incomplete" ? "response.incomplete" : "response.completed",
      data: { response: body },
      usage: completion.usage,
      reportsUsage: body.usage !== null,
    },
  ];
  return pieces.map(({ type, data, usage, reportsUsage }, sequence_number) => ({
    text: sseEvent({ type, sequence_number, ...data }, type),
    usage,
    reportsUsage,
  }));
}

/** Returns the stream of a response that exceeds the context window, as OpenAI sends it. */
export function fullWindowEvents(): string {
  const response = { id: "resp_full", object: "response", status: "in_progress", output: [], error: null };
  const failed = { ...response, status: "failed", error: fullWindow };
  return [
    { type: "response.created", sequence_number: 0, response },
    { type: "response.in_progress", sequence_number: 1, response },
    { type: "response.failed", sequence_number: 2, response: failed },
  ]
    .map((event) => sseEvent(event, event.type))
    .join("");
}

function itemEvents(completion: Completion, choice: Choice, before: Usage) {
  const item = outputItem(completion, choice);
  const at = { output_index: 0, item_id: item.id };
  const whole = completion.usage;
  const added = (extra: Item) => ({
    type: "response.output_item.added",
    data: { output_index: 0, item: { ...item, status: "in_progress", ...extra } },
    usage: before,
  });
  const done = { type: "response.output_item.done", data: { output_index: 0, item }, usage: whole };
  if (choice.toolCall) {
    const { arguments: args, input = "" } = calledBy(choice.toolCall);
    const [name, member] =
      args === undefined
        ? ["response.custom_tool_call_input", "input"]
        : ["response.function_call_arguments", "arguments"];
    const text = args ?? input;
    const named = args === undefined ? {} : { name: item.name };
    return [
      added({ [member]: "" }),
      { type: `${name}.delta`, data: { ...at, delta: text }, usage: whole },
      { type: `${name}.done`, data: { ...at, ...named, [member]: text }, usage: whole },
      done,
    ];
  }
  const part = (text: string) => ({ type: "output_text", text, annotations: [], logprobs: [] });
  let sent = "";
  const deltas = (choice.text.match(/\s*\S+/g) ?? []).map((delta) => {
    sent += delta;
    const usage = { ...before, output: before.output + countTokens(sent) };
    return { type: "response.output_text.delta", data: { ...at, content_index: 0, delta, logprobs: [] }, usage };
  });
  return [
    added({ content: [] }),
    { type: "response.content_part.added", data: { ...at, content_index: 0, part: part("") }, usage: before },
    ...deltas,
    {
      type: "response.output_text.done",
      data: { ...at, content_index: 0, text: choice.text, logprobs: [] },
      usage: whole,
    },
    { type: "response.content_part.done", data: { ...at, content_index: 0, part: part(choice.text) }, usage: whole },
    done,
  ];
}

function outputItem({ id }: Completion, { text, toolCall, finish }: Choice): Item {
  const status = finish === "length" ? "incomplete" : "completed";
  if (toolCall) {
    const { id: call_id, namespace } = toolCall;
    const call = { status, call_id, ...(namespace && { namespace }), ...calledBy(toolCall) };
    return toolCall.type === "custom"
      ? { id: `ctc_${id}`, type: "custom_tool_call", ...call }
      : { id: `fc_${id}`, type: "function_call", ...call };
  }
  const content = [{ type: "output_text", text, annotations: [], logprobs: [] }];
  return { id: `msg_${id}`, type: "message", status, role: "assistant", content };
}

function responseHead({ id, created, model }: Completion) {
  return {
    id: id.replace("chatcmpl", "resp"),
    object: "response",
    access_programs: null,
    created_at: created,
    model,
    error: null,
    instructions: null,
    metadata: {},
    parallel_tool_calls: true,
    store: false,
    temperature: 1,
    tool_choice: "auto",
    tools: [],
    top_p: 1,
  };
}
