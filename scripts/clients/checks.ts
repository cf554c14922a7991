import { z } from "zod";
import type { Exchange } from "./recorder.ts";

export const features = ["plain", "stream", "tools", "structured"] as const;
export type Feature = (typeof features)[number];

/** A check without a feature applies to all features. */
export type Check = { name: string; feature?: Feature; ok: boolean; error?: string };

const report = z
  .object({ check: z.string(), feature: z.enum(features), ok: z.boolean(), error: z.string().optional() })
  .transform(({ check: name, ...rest }): Check => ({ name, ...rest }));

/** Reads the checks that a program reported on standard output. The client may print there, too. */
export function reportedChecks(output: string): Check[] {
  return output.split("\n").flatMap((line) => {
    if (!line.startsWith("{")) return [];
    const parsed = report.safeParse(parseJson(line));
    return parsed.success ? [parsed.data] : [];
  });
}

const format = z.looseObject({ type: z.string() }).nullish();
const call = z.looseObject({
  stream: z.boolean().nullish(),
  messages: z.array(z.looseObject({ role: z.string(), content: z.unknown().optional() })).default([]),
  input: z.union([z.string(), z.array(z.looseObject({ type: z.string().optional() }))]).default([]),
  response_format: format,
  text: z.looseObject({ format }).nullish(),
  output_config: z.looseObject({ format }).nullish(),
});
type Call = z.infer<typeof call>;

/** The content blocks of a message in Anthropic's Messages API. */
const blocks = z.array(z.looseObject({ type: z.string() }));
const isToolResult = ({ type }: { type: string }) => type === "tool_result";

/** Recognizes the calls that use each feature. */
const uses: Record<Feature, (call: Call) => boolean> = {
  plain: ({ stream }) => !stream,
  stream: ({ stream }) => stream === true,
  tools: ({ messages, input }) =>
    messages.some(({ role, content }) => role === "tool" || blocks.catch([]).parse(content).some(isToolResult)) ||
    (Array.isArray(input) && input.some(({ type }) => /^(function|custom_tool)_call_output$/.test(type ?? ""))),
  structured: ({ response_format, text, output_config }) =>
    (response_format ?? text?.format ?? output_config?.format)?.type === "json_schema",
};

/**
 * Returns one check for each feature. It passes if the program reported the feature and the gateway answered a call
 * that used it.
 */
export function requiredChecks(
  reported: readonly Check[],
  { exchanges, lacks = [] }: { exchanges: readonly Exchange[]; lacks?: readonly Feature[] },
): Check[] {
  const answered = exchanges.flatMap(({ status, body }) => (status === 200 ? (call.safeParse(body).data ?? []) : []));
  return features
    .filter((feature) => !lacks.includes(feature))
    .map((feature) => ({
      name: `${feature}: the program checks it, and the gateway answered such a call`,
      feature,
      ok: reported.some((check) => check.feature === feature) && answered.some(uses[feature]),
    }));
}

/** Lists each reason for a refusal only once, with the first request body that was refused for it. */
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
