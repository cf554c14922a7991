import { z } from "zod";

/** An unset variable and an empty one mean the same. */
const text = z
  .string()
  .optional()
  .transform((value) => value?.trim() || undefined);

/** Parses an optional text variable. The result is `fallback` if the variable is unset or empty. */
export function str(fallback = "") {
  return text.transform((value) => value ?? fallback);
}

/** Parses a required text. */
export function required() {
  return text.pipe(z.string({ error: "must be set" }));
}

/** Parses a boolean. `true`, `t` and `1` are true. `false`, `f` and `0` are false. */
export function flag(fallback: boolean) {
  return text.transform((value, context) => {
    if (value === undefined) return fallback;
    if (["1", "t", "true"].includes(value.toLowerCase())) return true;
    if (["0", "f", "false"].includes(value.toLowerCase())) return false;
    context.addIssue(`must be true or false, not "${value}"`);
    return z.NEVER;
  });
}

/** Parses a non-negative number. */
export function count(fallback: number) {
  return text.transform((value, context) => {
    if (value === undefined) return fallback;
    const parsed = Number(value);
    if (Number.isFinite(parsed) && parsed >= 0) return parsed;
    context.addIssue(`must be a number, not "${value}"`);
    return z.NEVER;
  });
}

/** Parses comma-separated texts. */
export function list(fallback: string[] = []) {
  return text.transform((value) =>
    value === undefined
      ? fallback
      : value
          .split(",")
          .map((item) => item.trim())
          .filter(Boolean),
  );
}

const unitMs = { ns: 1e-6, us: 1e-3, µs: 1e-3, μs: 1e-3, ms: 1, s: 1_000, m: 60_000, h: 3_600_000 } as const;

/**
 * Parses a duration in Go's format (`1h30m`, `500ms`, `-2s`).
 * @returns milliseconds, or undefined if invalid
 */
export function parseDuration(value: string): number | undefined {
  const match = /^([+-]?)((?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+$/.exec(value);
  if (!match) return value === "0" ? 0 : undefined;
  let total = 0;
  for (const [, amount, unit] of value.matchAll(/(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)/g)) {
    total += Number(amount) * unitMs[unit as keyof typeof unitMs];
  }
  return match[1] === "-" ? -total : total;
}

/** Parses a duration into milliseconds, with a fallback. */
export function duration(fallbackMs: number) {
  return optionalDuration().transform((value) => value ?? fallbackMs);
}

/** Parses an optional duration into milliseconds. */
export function optionalDuration() {
  return text.transform((value, context) => {
    if (value === undefined) return undefined;
    const parsed = parseDuration(value);
    if (parsed !== undefined && parsed >= 0) return parsed;
    context.addIssue(`must be a duration such as 10s or 1h30m, not "${value}"`);
    return z.NEVER;
  });
}

/** Parses a rate: `30` (per hour) or `30/1m`. */
export function rate(fallback: number) {
  return text.transform((value, context) => {
    if (value === undefined) return { events: fallback, perMs: 3_600_000 };
    const [events, over, ...rest] = value.split("/");
    const perMs = over === undefined ? 3_600_000 : parseDuration(over);
    if (rest.length === 0 && events !== "" && Number(events) >= 0 && perMs) return { events: Number(events), perMs };
    context.addIssue(`must be a number an hour, or one over a duration such as 30/1m, not "${value}"`);
    return z.NEVER;
  });
}

/** Parses the colon-separated character sets that a password must draw from; `\:` is a colon. */
export function characterSets() {
  return z
    .string()
    .optional()
    .transform((value) =>
      (value ?? "")
        .split(/(?<!\\):/)
        .map((set) => set.replaceAll("\\:", ":"))
        .filter(Boolean),
    );
}
