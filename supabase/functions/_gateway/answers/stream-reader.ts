import type { Platform } from "../runs/run.ts";
import type { SaidTexts } from "../structured/answer-schema.ts";
import { isObject } from "../structured/canonical.ts";
import { createOutputCounter, estimateTokens } from "../usage/estimate.ts";
import { parseAnswer } from "../usage/read-usage.ts";
import { latestUsage, type StatedUsage } from "../usage/usage.ts";
import { tellsError } from "./error-events.ts";
import { nestsTooDeeply } from "./nesting.ts";
import { createEventSplitter, dataOf, type Fate, keepaliveLine, lineEnd, strayLinesOf } from "./sse.ts";

/** What a stream has told so far. */
export type StreamFacts = {
  /** The last usage that was stated, and whether it came in the event that closes the count. */
  usage?: StatedUsage;
  usageIsFinal: boolean;
  /** The `service_tier` that was stated last. */
  servedTier?: string;
  /** The end has come: nothing after it counts. */
  done: boolean;
  /** Every choice has its finish reason: what may still come is usage and the end. */
  finished: boolean;
  /** The provider has sent an error, or something that is no event of this kind, or has ended too early. */
  failed: boolean;
  /** Events with content so far, and an estimate of what they hold. */
  events: number;
  guessedOutputTokens: number;
  /** Bytes of the output so far, and when the last usage came. */
  outputBytes: number;
  outputBytesAtUsage: number;
  /** What has come in place of any content, where it may be an answer that is no stream. */
  inItsPlace?: string;
};

/** Whether the usage that a stream has stated is of all that came. @param whole it has come to its end */
export function countsAll(facts: StreamFacts, whole: boolean): boolean {
  if (facts.usage?.counts.output_tokens === 0 && facts.guessedOutputTokens > 0) return false;
  return facts.usageIsFinal || ((whole || facts.finished) && facts.outputBytes === facts.outputBytesAtUsage);
}

/** Whether all content has come, so that a connection that closes now cuts nothing off. */
export function isWhole({ usageIsFinal, finished, failed }: StreamFacts): boolean {
  return (usageIsFinal || finished) && !failed;
}

/** Reads a provider's stream on its way through. */
export type StreamReader = {
  facts: StreamFacts;
  push: (bytes: Uint8Array) => Uint8Array[];
  end: () => Uint8Array[];
  /** The last events of the answer, which tell what the run was. */
  completion: (platform: Platform) => string;
  /** The answer as it would have come whole, where somebody has to know. */
  answer?: () => StreamedAnswer | undefined;
};

/** A streamed answer, put together. */
export type StreamedAnswer = { value: Record<string, unknown>; said: () => SaidTexts };

/** What an event that had to be read says. */
export type Reading = {
  fate: "pass" | "drop" | "done" | "fail" | Uint8Array;
  usage?: StatedUsage;
  usageIsFinal?: boolean;
  servedTier?: string;
  /** With it, every choice has its finish reason. */
  finished?: boolean;
  /** It holds content, and not the count alone. */
  content?: boolean;
};

/** How one surface's events look. */
export type StreamDialect = {
  /** An event's lines but for the blank one, when it is content by its looks. */
  content: RegExp;
  /** What makes an event worth reading all the same. */
  telling: RegExp;
  /** Where JSON strings that are output begin, to the first of their text; global. */
  output: RegExp;
  /** Reads the data of an event. */
  read: (data: Record<string, unknown>) => Reading;
  /** Is shown the data of every event, where somebody has to know what they say. */
  observe?: (data: unknown) => void;
  completion: StreamReader["completion"];
};

const errorEvent = /^event: ?error\s*$/m;

/**
 * Reads a stream in a surface's dialect. Content events are not parsed, except the first, which names the answer, and
 * those with usage, an error or the end. Anything else is dropped if it only keeps the connection open or extends the
 * protocol, since stock clients fail on it; otherwise it ends the stream as a failure.
 */
export function createStreamReader(dialect: StreamDialect): StreamReader {
  const facts: StreamFacts = {
    usageIsFinal: false,
    done: false,
    finished: false,
    failed: false,
    events: 0,
    guessedOutputTokens: 0,
    outputBytes: 0,
    outputBytesAtUsage: 0,
  };
  let ending = false;
  const decoder = new TextDecoder("utf-8");
  const bytesSoFar = createOutputCounter(dialect.output);
  const splitter = createEventSplitter(take, () => {
    facts.failed = true;
  });

  function take(event: Uint8Array): Fate {
    const text = decoder.decode(event);
    if (facts.events > 0 && isContent(text)) {
      count(text);
      if (dialect.observe) observe(text, dialect.observe);
      return "pass";
    }
    const stray = strayLinesOf(text);
    if (facts.events === 0 && stray.startsWith("{")) return refuse(stray);
    const data = dataOf(text).trim() || stray;
    const isError = errorEvent.test(text);
    // openai-python and openai-go fail on an event without data: https://github.com/openai/openai-python/issues/2722,
    // https://github.com/openai/openai-go/pull/621
    if (data === "" && !isError) return text.includes(":") ? keepaliveLine : "drop";
    if (data === "[DONE]") {
      // An end of nothing is no answer.
      if (facts.events === 0 && !facts.usage) return refuse();
      facts.done = true;
      return "stop";
    }
    const reading: Reading = isError ? { fate: "fail" } : readData(data);
    if (reading.fate === "fail") {
      if (reading.usage) learn(reading);
      return refuse(facts.events === 0 ? data : undefined);
    }
    // What it counts is its own content, too.
    if (reading.content) count(text);
    learn(reading);
    if (reading.fate !== "done") return reading.fate;
    facts.done = true;
    return "stop";
  }

  function refuse(inItsPlace?: string): "stop" {
    facts.failed = true;
    if (inItsPlace !== undefined) facts.inItsPlace = inItsPlace;
    return "stop";
  }

  function learn({ usage, usageIsFinal = false, finished = false, servedTier }: Reading): void {
    facts.finished ||= finished;
    facts.servedTier = servedTier ?? usage?.servedTier ?? facts.servedTier;
    // Zeros next to content are a placeholder: content has tokens.
    if (!usage || (isNothing(usage) && (!usageIsFinal || facts.guessedOutputTokens > 0))) return;
    facts.usage = latestUsage(facts.usage, usage);
    facts.usageIsFinal ||= usageIsFinal;
    facts.outputBytesAtUsage = facts.outputBytes;
  }

  function count(text: string): void {
    facts.events += 1;
    const bytes = bytesSoFar(text);
    // Usage that content follows was not the last word.
    if (bytes > facts.outputBytes) facts.usageIsFinal = false;
    facts.outputBytes = bytes;
    facts.guessedOutputTokens = estimateTokens(bytes);
  }

  function readData(data: string): Reading {
    const value = parsed(data);
    // A connection that is cut after all content can cut the usage.
    if (value === undefined && ending && facts.finished) return { fate: "drop" };
    if (!isObject(value)) return { fate: tellsError(value ?? data) ? "fail" : "drop" };
    try {
      const reading = dialect.read(value);
      if (nestsTooDeeply(value, data)) return { ...reading, fate: "fail" };
      if (reading.fate !== "fail") dialect.observe?.(value);
      return reading;
    } catch {
      return { fate: "fail" };
    }
  }

  function isContent(event: string): boolean {
    const lines = event.trimEnd();
    return dialect.content.test(lines) && lines.endsWith("}") && !dialect.telling.test(lines) && oneData(lines);
  }

  function end(): Uint8Array[] {
    ending = true;
    const last = splitter.end();
    facts.done ||= isWhole(facts);
    return last;
  }

  return { facts, push: splitter.push, end, completion: dialect.completion };
}

function isNothing({ counts: { input_tokens, output_tokens } }: StatedUsage): boolean {
  return input_tokens === 0 && output_tokens === 0;
}

/** Undefined if it is not JSON. */
function parsed(data: string): unknown {
  try {
    return parseAnswer(data);
  } catch {
    return undefined;
  }
}

/** What only looks like content is passed on all the same, and is nothing to anybody here. */
function observe(event: string, tell: (data: unknown) => void): void {
  try {
    tell(JSON.parse(dataOf(event)));
  } catch {
    // No JSON.
  }
}

/** One line of data, after at most a name. */
function oneData(lines: string): boolean {
  if (!lines.includes("\n") && !lines.includes("\r")) return true;
  const [first = "", second, ...more] = lines.split(lineEnd);
  return more.length === 0 && (second === undefined || first.startsWith("event:"));
}
