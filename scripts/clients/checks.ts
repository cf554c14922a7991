import { z } from "zod";
import type { Exchange } from "./recorder.ts";

export type Check = { name: string; ok: boolean; error?: string };

const report = z.object({ check: z.string(), ok: z.boolean(), error: z.string().optional() });

/** Reads the checks that a program reported on standard output, where its client may print, too. */
export function reportedChecks(output: string): Check[] {
  return output.split("\n").flatMap((line) => {
    if (!line.startsWith("{")) return [];
    const parsed = report.safeParse(parseJson(line));
    return parsed.success ? [{ name: parsed.data.check, ok: parsed.data.ok, error: parsed.data.error }] : [];
  });
}

const calls = z.object({
  stream: z.boolean().nullish(),
  messages: z.array(z.looseObject({ role: z.string() })).optional(),
  input: z.union([z.string(), z.array(z.looseObject({ type: z.string().optional() }))]).optional(),
});

/** Checks independently of the program that the client returned a tool's result and asked for a stream. */
export function requiredChecks(exchanges: readonly Exchange[]): Check[] {
  const answered = exchanges.filter(({ status }) => status === 200).map(({ body }) => calls.safeParse(body).data ?? {});
  const returnsResult = answered.some(
    ({ messages = [], input }) =>
      messages.some(({ role }) => role === "tool") ||
      (Array.isArray(input) && input.some(({ type }) => type === "function_call_output")),
  );
  return [
    { name: "the gateway answered a tool's result", ok: returnsResult },
    { name: "the gateway answered a stream", ok: answered.some(({ stream }) => stream === true) },
  ];
}

/** Lists the reasons why calls were refused, each once, with the first body that was refused for it. */
export function refusals(exchanges: readonly Exchange[]): string[] {
  const byReason = new Map<string, string>();
  for (const { path, body, status, answer } of exchanges) {
    if (status < 400) continue;
    const { message, param } = z
      .object({ error: z.looseObject({ message: z.string(), param: z.string().nullish() }) })
      .transform(({ error }) => error)
      .catch({ message: answer ?? "", param: null })
      .parse(parseJson(answer ?? ""));
    const reason = `${status} ${path}: ${message}${param ? ` (${param})` : ""}`;
    if (!byReason.has(reason)) byReason.set(reason, `${reason}\n${JSON.stringify(body)}`);
  }
  return [...byReason.values()];
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
