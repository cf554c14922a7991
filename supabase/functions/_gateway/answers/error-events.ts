import { JsonNumber } from "../../_shared/exact-json.ts";
import { isObject } from "../../_shared/json.ts";
import { readStatedCounts } from "../usage/stated-counts.ts";

const errorWords =
  /error|exception|traceback|fail|invalid|denied|unauthori[sz]ed|forbidden|exceeded|unavailable|overload|timed? ?out/i;
const idleWords = /\b(?:ping|pong|heart-?beat|keep-?alive|processing|thinking|waiting|queued)\b/i;
const names = ["type", "object", "event", "status", "kind"];
const texts = ["message", "msg", "detail"];

/**
 * Returns whether an event outside the surface's protocol reports an error, in any format. An event that reports no
 * error only keeps the connection open or extends the protocol.
 * @param event parsed, or its text if it isn't JSON
 */
export function reportsError(event: unknown): boolean {
  if (typeof event === "string") return !isIdleToken(event) && !isIdleText(event);
  // Gemini wraps its errors in an array.
  if (Array.isArray(event)) return event.some((each) => isObject(each) && reportsError(each));
  if (!isObject(event)) return false;
  const named = names.flatMap((name) => (typeof event[name] === "string" ? [event[name]] : []));
  if (hasError(event) || named.some((name) => errorWords.test(name))) return true;
  const text = texts.map((name) => event[name]).find((each) => each != null);
  if (text === undefined) return false;
  const code = [event.code, event.status_code, event.status].find((each) => each != null && !named.includes(`${each}`));
  if (code !== undefined) return isErrorCode(code);
  return named.length === 0 && !(typeof text === "string" && isIdleText(text));
}

/**
 * Returns whether an event or answer of any kind reports an error. Groq puts the error that ends a stream early into
 * `x_groq`. OpenRouter puts the error of a choice into the choice (https://openrouter.ai/docs/api-reference/errors).
 */
export function hasError(event: Record<string, unknown>): boolean {
  const inGroq = isObject(event.x_groq) ? event.x_groq.error : undefined;
  const choices: unknown[] = Array.isArray(event.choices) ? event.choices : [];
  return (
    [event.error, event.errors, inGroq].some(isError) ||
    choices.some((choice) => isObject(choice) && (choice.finish_reason === "error" || isError(choice.error)))
  );
}

/** Returns whether an event or answer states counts or a cost above zero, wherever providers state them. */
export function reportsUsage(event: Record<string, unknown>): boolean {
  const choices: unknown[] = Array.isArray(event.choices) ? event.choices : [];
  const holders = [event, event.response, event.x_groq, ...choices];
  const { prompt_eval_count, eval_count, timings } = event;
  const usages = holders.flatMap((each) => (isObject(each) ? [each.usage] : []));
  const isTimed = isObject(timings) && Number(timings.prompt_n) > 0;
  return isTimed || [...usages, { prompt_eval_count, eval_count }].some(isAboveZero);
}

function isAboveZero(usage: unknown): boolean {
  if (!isObject(usage)) return false;
  const costs = [usage.cost, usage.cost_in_usd_ticks].map((cost) => (cost instanceof JsonNumber ? cost.text : cost));
  return [...Object.values(readStatedCounts(usage)), ...costs].some((amount) => Number(amount) > 0);
}

function isError(value: unknown): boolean {
  return value != null && value !== false && value !== "" && !(Array.isArray(value) && value.length === 0);
}

/** Returns whether the text is one word or a time, such as "ping" or "2024-04-07 20:20:50.554328". */
function isIdleToken(text: string): boolean {
  return /^(?:[^\s{<]\S{0,63}|[\d\s:.,/TZ+-]{0,64})$/.test(text) && !errorWords.test(text);
}

function isIdleText(text: string): boolean {
  return text.length <= 200 && !/^[{<]/.test(text) && idleWords.test(text) && !errorWords.test(text);
}

function isErrorCode(code: unknown): boolean {
  return typeof code === "number" || typeof code === "string" ? code !== "" && !(Number(code) < 400) : true;
}
