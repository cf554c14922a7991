import { isObject, parseJsonOrUndefined } from "../../_shared/json.ts";
import type { GatewayError } from "../http/errors.ts";
import type { UnbilledEnding } from "../providers/kinds/kind.ts";
import type { Platform } from "../runs/run.ts";
import type { OutputTexts } from "../structured/answer-schema.ts";
import { createOutputCounter, estimateTokens } from "../usage/estimate.ts";
import { parseAnswer } from "../usage/read-usage.ts";
import { latestUsage, type StatedUsage } from "../usage/usage.ts";
import { reportsError } from "./error-events.ts";
import { nestsTooDeeply } from "./nesting.ts";
import { createEventSplitter, type EventAction, lineEnd, readEventData, strayLinesOf } from "./sse.ts";

/** The facts that a stream has revealed so far. */
export type StreamFacts = {
  /** The last stated usage. It is final if the event that stated it comes after all content. */
  usage?: StatedUsage;
  usageIsFinal: boolean;
  /** The `service_tier` stated last. */
  servedTier?: string;
  /** Whether the stream has ended. Later events are ignored. */
  done: boolean;
  /** Whether every choice has its finish reason, so that only usage and the terminator may follow. */
  finished: boolean;
  /** Whether any choice has its finish reason. */
  hasReason: boolean;
  /** Whether the provider sent an error or an event that can't be read, or ended the stream too early. */
  failed: boolean;
  /** Number of events with content so far, and an estimate of the output tokens in them. */
  events: number;
  estimatedOutputTokens: number;
  /** Number of output bytes so far, and the same number at the time of the last usage statement. */
  outputBytes: number;
  outputBytesAtUsage: number;
  /** How the stream ended, if some providers don't bill such streams without output. */
  ending?: UnbilledEnding;
  /** Text that arrived before any content and may be a non-streamed answer. */
  wholeAnswerText?: string;
  /** The provider's error, if it sent one. */
  error?: string;
};

/** Returns whether the stated usage covers everything that arrived. @param whole whether the stream has ended */
export function isUsageComplete(facts: StreamFacts, whole: boolean): boolean {
  if (facts.usage?.counts.output_tokens === 0 && facts.estimatedOutputTokens > 0) return false;
  return facts.usageIsFinal || ((whole || facts.finished) && facts.outputBytes === facts.outputBytesAtUsage);
}

/** Returns whether usage states a cost or more output than the one token that some providers state for none. */
export function isBilled(usage: StatedUsage | undefined): boolean {
  return usage !== undefined && (usage.counts.output_tokens > 1 || Number(usage.statedCostUsd ?? 0) > 0);
}

/** Returns how a stream without output ended, if some providers don't bill such a stream. */
export function readUnbilledEnding({
  ending,
  done,
  hasReason,
  usage,
  outputBytes,
}: StreamFacts): UnbilledEnding | undefined {
  if (outputBytes > 0 || isBilled(usage)) return undefined;
  return ending ?? (done && !hasReason ? "nothing" : undefined);
}

/** Returns whether all content has arrived, so that nothing is lost if the connection closes now. */
export function isContentComplete({ usageIsFinal, finished, failed }: StreamFacts): boolean {
  return (usageIsFinal || finished) && !failed;
}

/** Reads a provider's stream as it passes through. */
export type StreamReader = {
  facts: StreamFacts;
  push: (bytes: Uint8Array) => Uint8Array[];
  end: () => Uint8Array[];
  /** Returns the events that end the client's stream and describe the run. */
  completion: (platform: Platform) => string;
  /** Returns the event that ends the client's stream with an error, if it depends on the events before. */
  failure?: (error: GatewayError, requestId: string) => string;
  /** Returns the answer in its non-streamed form, if the reader assembles it. */
  answer?: () => StreamedAnswer | undefined;
};

/** A streamed answer in its non-streamed form. */
export type StreamedAnswer = { value: Record<string, unknown>; texts: () => OutputTexts };

/** The result of reading an event. */
export type EventReading = {
  action: "pass" | "drop" | "done" | "fail" | Uint8Array;
  usage?: StatedUsage;
  usageIsFinal?: boolean;
  servedTier?: string;
  /** Whether every choice has its finish reason after this event. */
  finished?: boolean;
  /** Whether any choice has its finish reason after this event. Defaults to `finished`. */
  hasReason?: boolean;
  /** Whether the event holds content, not just counts. */
  content?: boolean;
  ending?: UnbilledEnding | undefined;
};

/** How to recognize and parse the events of one surface's streams. */
export type StreamDialect = {
  /** Matches an event with content. The event's trailing blank line is removed first. */
  content: RegExp;
  /**
   * Matches content events that the reader must parse, such as those with usage or an error. Most content events pass
   * unparsed.
   */
  mustParse: RegExp;
  /** Finds the output texts of an event. Each match ends where a JSON string's text begins. Must have the `g` flag. */
  output: RegExp;
  read: (data: Record<string, unknown>) => EventReading;
  /** Receives the data of every event. */
  observe?: (data: unknown) => void;
  completion: StreamReader["completion"];
};

const errorEvent = /^event: ?error\s*$/m;

/**
 * Creates a reader for streams in a surface's dialect. It parses the first content event, which names the answer, and
 * events with usage, an error or a finish reason, but no other content events. It drops other events that only keep the
 * connection open or extend the protocol, because standard clients fail on them. Anything else fails the stream.
 */
export function createStreamReader(dialect: StreamDialect): StreamReader {
  const facts: StreamFacts = {
    usageIsFinal: false,
    done: false,
    finished: false,
    hasReason: false,
    failed: false,
    events: 0,
    estimatedOutputTokens: 0,
    outputBytes: 0,
    outputBytesAtUsage: 0,
  };
  let isEnding = false;
  const decoder = new TextDecoder("utf-8");
  const countOutput = createOutputCounter(dialect.output);
  const splitter = createEventSplitter(take, () => {
    facts.failed = true;
  });

  function take(event: Uint8Array): EventAction {
    const text = decoder.decode(event);
    if (facts.events > 0 && isContent(text)) {
      count(text);
      if (dialect.observe) observe(text, dialect.observe);
      return "pass";
    }
    const stray = strayLinesOf(text);
    if (facts.events === 0 && stray.startsWith("{")) return fail(stray);
    const data = readEventData(text).trim() || stray;
    const isError = errorEvent.test(text);
    // openai-python and openai-go fail on an event without data: https://github.com/openai/openai-python/issues/2722,
    // https://github.com/openai/openai-go/pull/621. The gateway writes keepalives of its own.
    if (data === "" && !isError) return "drop";
    if (data === "[DONE]") {
      // A stream that ends without content or usage isn't an answer.
      if (facts.events === 0 && !facts.usage) return fail();
      facts.done = true;
      return "stop";
    }
    const reading: EventReading = isError ? { action: "fail" } : readData(data);
    if (reading.action === "fail") {
      record(reading);
      if (isError || reportsError(parseJsonOrUndefined(data, parseAnswer) ?? data)) facts.error = data;
      return fail(facts.events === 0 ? data : undefined);
    }
    // Counts the content first, because an event's usage includes the content of that event.
    if (reading.content) count(text);
    record(reading);
    if (reading.action !== "done") return reading.action;
    facts.done = true;
    return "stop";
  }

  function fail(wholeAnswerText?: string): "stop" {
    facts.failed = true;
    if (wholeAnswerText !== undefined) facts.wholeAnswerText = wholeAnswerText;
    return "stop";
  }

  function record({
    usage,
    usageIsFinal = false,
    finished = false,
    hasReason = finished,
    servedTier,
    ending,
  }: EventReading): void {
    facts.finished ||= finished;
    facts.hasReason ||= hasReason;
    facts.ending = ending ?? facts.ending;
    facts.servedTier = servedTier ?? usage?.servedTier ?? facts.servedTier;
    // Ignores zero counts that are not final or that contradict the streamed content.
    if (!usage || (isZeroUsage(usage) && (!usageIsFinal || facts.estimatedOutputTokens > 0))) return;
    facts.usage = latestUsage(facts.usage, usage);
    facts.usageIsFinal ||= usageIsFinal;
    facts.outputBytesAtUsage = facts.outputBytes;
  }

  function count(text: string): void {
    facts.events += 1;
    const bytes = countOutput(text);
    // More content after a usage statement shows that the usage was not final.
    if (bytes > facts.outputBytes) facts.usageIsFinal = false;
    facts.outputBytes = bytes;
    facts.estimatedOutputTokens = estimateTokens(bytes);
  }

  function readData(data: string): EventReading {
    const value = parseJsonOrUndefined(data, parseAnswer);
    // If the connection is cut after all content, the last usage event may be incomplete.
    if (value === undefined && isEnding && facts.finished) return { action: "drop" };
    if (!isObject(value)) return { action: reportsError(value ?? data) ? "fail" : "drop" };
    try {
      const reading = dialect.read(value);
      if (nestsTooDeeply(value, data)) return { ...reading, action: "fail" };
      if (reading.action !== "fail") dialect.observe?.(value);
      return reading;
    } catch {
      return { action: "fail" };
    }
  }

  function isContent(event: string): boolean {
    const lines = event.trimEnd();
    return (
      dialect.content.test(lines) && lines.endsWith("}") && !dialect.mustParse.test(lines) && hasOneDataLine(lines)
    );
  }

  function end(): Uint8Array[] {
    isEnding = true;
    const last = splitter.end();
    facts.done ||= isContentComplete(facts);
    return last;
  }

  return { facts, push: splitter.push, end, completion: dialect.completion };
}

function isZeroUsage({ counts: { input_tokens, output_tokens } }: StatedUsage): boolean {
  return input_tokens === 0 && output_tokens === 0;
}

/** Passes the parsed data of an event to `observer`. Skips text that looks like content but can't be parsed. */
function observe(event: string, observer: (data: unknown) => void): void {
  try {
    observer(JSON.parse(readEventData(event)));
  } catch {
    // Skips text that isn't JSON.
  }
}

/** Returns whether an event consists of one data line, optionally after an `event:` line. */
function hasOneDataLine(lines: string): boolean {
  if (!lines.includes("\n") && !lines.includes("\r")) return true;
  const [first = "", second, ...more] = lines.split(lineEnd);
  return more.length === 0 && (second === undefined || first.startsWith("event:"));
}
