import { isObject } from "../structured/canonical.ts";

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
export function tellsError(event: unknown): boolean {
  if (typeof event === "string") return !isIdleToken(event) && !saysIdle(event);
  // Gemini wraps its errors in an array.
  if (Array.isArray(event)) return event.some((each) => isObject(each) && tellsError(each));
  if (!isObject(event)) return false;
  const named = names.flatMap((name) => (typeof event[name] === "string" ? [event[name]] : []));
  if (hasError(event) || named.some((name) => errorWords.test(name))) return true;
  const said = texts.map((name) => event[name]).find(isPresent);
  if (said === undefined) return false;
  const code = [event.code, event.status_code, event.status].find(
    (each) => isPresent(each) && !named.includes(`${each}`),
  );
  if (code !== undefined) return isErrorCode(code);
  return named.length === 0 && !(typeof said === "string" && saysIdle(said));
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

function isError(value: unknown): boolean {
  return isPresent(value) && value !== false && value !== "" && !(Array.isArray(value) && value.length === 0);
}

/** Returns whether the text is one word or a time, such as "ping" or "2024-04-07 20:20:50.554328". */
function isIdleToken(text: string): boolean {
  return /^(?:[^\s{<]\S{0,63}|[\d\s:.,/TZ+-]{0,64})$/.test(text) && !errorWords.test(text);
}

function saysIdle(text: string): boolean {
  return text.length <= 200 && !/^[{<]/.test(text) && idleWords.test(text) && !errorWords.test(text);
}

function isErrorCode(code: unknown): boolean {
  return typeof code === "number" || typeof code === "string" ? code !== "" && !(Number(code) < 400) : true;
}

function isPresent(value: unknown): boolean {
  return value !== undefined && value !== null;
}
