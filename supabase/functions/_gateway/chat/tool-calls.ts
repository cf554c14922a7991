import { isObject } from "../../_shared/json.ts";

type Entry = Record<string, unknown>;

/** A tool call, as far as it has arrived. */
type Call = {
  /** The index that the provider stated. */
  providerIndex: unknown;
  /** The index that clients see. */
  clientIndex: number;
  id: unknown;
  /** The name as clients have received it so far. */
  name: string;
  arguments: ReturnType<typeof createJsonProgress>;
};

/** The calls of one choice. `next` is one above the highest index in use. */
type Calls = { list: Call[]; usedIndexes: Set<number>; next: number };

/**
 * How many of a choice's latest tool calls stay open, so that later pieces can continue them. The limit prevents a
 * hostile stream from causing a quadratic search.
 */
const maxOpenCalls = 128;
/** The highest index that clients see. They keep calls in an array, and a higher index would make it too long. */
const maxIndex = 127;

/**
 * Gives each tool call of a stream its own index and each piece the index of its call, since clients assemble calls by
 * index alone. Arguments become text. Providers differ:
 * - Ollama sent every call at index 0, each with an id: https://github.com/ollama/ollama/issues/15457
 * - Gemini sends parallel calls at one index, or none: https://github.com/NousResearch/hermes-agent/issues/62940,
 * https://discuss.ai.google.dev/t/gemini-openai-compatibility-issue-with-tool-call-streaming/59886
 * - SGLang sent a call's arguments at another index than its name: https://github.com/sgl-project/sglang/issues/6310
 * - vLLM and Poolside sent a new id with a call's next pieces: https://github.com/vllm-project/vllm/pull/23522,
 * https://github.com/poolsideai/pool/issues/9
 * - NVIDIA repeated a call's name in every piece, and Gemini sent a name in pieces. openai-python joins ids and names:
 * https://github.com/NousResearch/hermes-agent/pull/12230, https://github.com/continuedev/continue/pull/5849
 * - llama.cpp and TGI sent arguments as an object: https://github.com/ggml-org/llama.cpp/issues/20198,
 * https://github.com/huggingface/text-generation-inference/issues/2136
 * @returns a function that corrects a chunk's choices in place and returns whether anything changed
 */
export function createToolCallNumbering(): (choices: readonly unknown[]) => boolean {
  const callsOf = new Map<unknown, Calls>();

  return (choices) => {
    let changed = false;
    for (const choice of choices) {
      if (!isObject(choice) || !isObject(choice.delta) || !Array.isArray(choice.delta.tool_calls)) continue;
      const place = choice.index ?? 0;
      const calls = callsOf.get(place) ?? { list: [], usedIndexes: new Set(), next: 0 };
      callsOf.set(place, calls);
      for (const entry of choice.delta.tool_calls) if (isObject(entry) && correctEntry(calls, entry)) changed = true;
    }
    return changed;
  };
}

function correctEntry(calls: Calls, entry: Entry): boolean {
  const wasObject = argumentsAsText(entry.function);
  const call = findContinuedCall(calls.list, entry) ?? startCall(calls, entry);
  const isRepeated = leaveOutRepeatedId(call, entry);
  const isRenamed = leaveOutRepeatedName(call, entry);
  if (isObject(entry.function)) call.arguments.add(entry.function.arguments);
  const isMoved = entry.index !== call.clientIndex;
  entry.index = call.clientIndex;
  return wasObject || isMoved || isRepeated || isRenamed;
}

/** Removes the id and type of an entry whose call already has an id. @returns whether anything changed */
function leaveOutRepeatedId(call: Call, entry: Entry): boolean {
  if (!call.id) {
    call.id = entry.id;
    return false;
  }
  const repeated = ["id", "type"].filter((name) => entry[name] != null);
  for (const name of repeated) delete entry[name];
  return repeated.length > 0;
}

/**
 * Reduces the name of an entry to the part that clients have not received, since they join the names of all pieces.
 * @returns whether anything changed
 */
function leaveOutRepeatedName(call: Call, entry: Entry): boolean {
  const target = readTool(entry);
  const name = target?.name;
  if (!target || name == null) return false;
  const known = call.name;
  // A name may arrive in pieces, but only before the arguments.
  const isPiece = typeof name === "string" && (known === "" || !call.arguments.hasBegun());
  const isLonger = typeof name === "string" && name.startsWith(known);
  const added = !isPiece ? "" : isLonger ? name.slice(known.length) : name;
  call.name += added;
  if (added === name) return false;
  if (added === "") delete target.name;
  else target.name = added;
  return true;
}

/**
 * Returns the call that an entry continues. If no open call matches, an entry that has neither an id nor a name
 * continues the last call.
 */
function findContinuedCall(calls: readonly Call[], entry: Entry): Call | undefined {
  const open = calls.slice(-maxOpenCalls);
  const known =
    open.findLast((call) => isContinuation(call, entry)) ??
    open.findLast((call) => isContinuationWithNewId(call, entry));
  return known ?? (entry.id || readToolName(entry) ? undefined : calls.at(-1));
}

function isContinuation(call: Call, entry: Entry): boolean {
  const isPlaced = entry.index != null;
  const isElsewhere = isPlaced && call.providerIndex != null && entry.index !== call.providerIndex;
  if (isElsewhere || (entry.id && call.id && entry.id !== call.id)) return false;
  // Some providers send complete calls under one id.
  if (entry.id && call.id) return !(call.arguments.isWhole() && isBeginning(entry));
  // Without ids to compare, an entry continues a call whose arguments are incomplete. If the entry has a name but no
  // index, the call's arguments must also have begun.
  return readToolName(entry) && !isPlaced ? call.arguments.isOpen() : !call.arguments.isWhole();
}

/** Returns whether an entry with a new id continues the arguments of an earlier call. */
function isContinuationWithNewId(call: Call, entry: Entry): boolean {
  if (!entry.id || !call.id || entry.index == null || entry.index !== call.providerIndex) return false;
  const name = readToolName(entry);
  return name ? name === call.name && call.arguments.isOpen() : !call.arguments.isWhole();
}

function startCall(calls: Calls, { index }: Entry): Call {
  const clientIndex = isIndex(index) && !calls.usedIndexes.has(index) ? index : calls.next;
  const call = { providerIndex: index, clientIndex, id: undefined, name: "", arguments: createJsonProgress() };
  calls.list.push(call);
  calls.usedIndexes.add(clientIndex);
  calls.next = Math.max(calls.next, clientIndex + 1);
  return call;
}

/** Returns whether an entry has a name and the beginning of its arguments. */
function isBeginning(entry: Entry): boolean {
  const text = readTool(entry)?.arguments;
  return Boolean(readToolName(entry)) && typeof text === "string" && /^\s*\{/.test(text);
}

function isIndex(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) <= maxIndex;
}

function readToolName(entry: Entry): unknown {
  return readTool(entry)?.name;
}

/** Returns the member of an entry that names the function or the custom tool. */
function readTool({ function: target, custom }: Entry): Entry | undefined {
  if (isObject(target)) return target;
  return isObject(custom) ? custom : undefined;
}

/**
 * Converts the arguments of tool calls to JSON text in all choices of a non-streamed answer. @returns whether anything
 * changed
 */
export function correctToolCalls(choices: readonly unknown[]): boolean {
  let changed = false;
  for (const choice of choices) {
    if (!isObject(choice) || !isObject(choice.message) || !Array.isArray(choice.message.tool_calls)) continue;
    for (const call of choice.message.tool_calls) if (isObject(call) && argumentsAsText(call.function)) changed = true;
  }
  return changed;
}

/**
 * Converts a function's arguments to text if they are an object.
 * @returns whether anything changed
 */
function argumentsAsText(target: unknown): boolean {
  if (!isObject(target) || typeof target.arguments !== "object" || target.arguments === null) return false;
  target.arguments = JSON.stringify(target.arguments);
  return true;
}

/** Tracks whether the JSON text of an object, which arrives in pieces, is open or complete. */
function createJsonProgress() {
  let depth = 0;
  let whole = false;
  let quoted = false;
  let escaped = false;

  function add(piece: unknown): void {
    if (typeof piece !== "string" || whole) return;
    for (const character of piece) {
      if (escaped) escaped = false;
      else if (quoted) {
        if (character === '"') quoted = false;
        else escaped = character === "\\";
      } else if (character === '"') quoted = true;
      else if (character === "{" || character === "[") depth += 1;
      else if (character === "}" || character === "]") {
        depth -= 1;
        whole ||= depth === 0;
      }
    }
  }

  return { add, isWhole: () => whole, isOpen: () => depth > 0, hasBegun: () => whole || depth > 0 };
}
