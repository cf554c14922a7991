import { z } from "zod";
import { isObject, type JsonObject, textOf } from "../../studio/costs/files/json-values.ts";

/** What a provider counted in an hour with one of its API keys and one model. */
export type HourCounts = {
  /** The start of the hour, as RFC 3339. */
  hour: string;
  /** Null without a key, such as in the provider's console. */
  keyId: string | null;
  model: string;
  /** Null if the provider does not state it. */
  requests: number | null;
  /** Includes cached tokens and cache writes. */
  inputTokens: number;
  cachedInputTokens: number;
  cacheWriteTokens: number;
  outputTokens: number;
};

/** The counts of one hour; none if nothing was used. */
export type ReportedHour = { hour: string; counts: HourCounts[] };

export type HourPage = { hours: ReportedHour[]; hasMore: boolean; next: string | null };

/** Conversions between a provider's hourly usage and the counts of the gateway. */
export type HourReport = {
  /** The paths of the reports that together cover the operations that the gateway calls. */
  paths: readonly string[];
  request: (
    access: { baseUrl: string; key: string },
    page: { path: string; from: string; to: string; cursor: string | null },
  ) => { url: URL; headers: Record<string, string> };
  /** Reads a page that was parsed with exact numbers. @throws ZodError */
  readPage: (page: JsonObject) => HourPage;
};

/** A day has 24 buckets, and a page at most 168. */
const pageHours = "24";
const unknownModel = "unknown";

const count = z.unknown().transform(readCount);
const optionalCount = z
  .unknown()
  .optional()
  .transform((value, context) => (value === undefined || value === null ? 0 : readCount(value, context)));
/** Postgres stores neither NUL nor lone surrogates, and names contain no other control characters. */
const name = z
  .string()
  .regex(/^[^\p{Cc}\p{Cs}]{1,256}$/u)
  .nullish();
/** The last start that is a date with a year of four digits. */
const lastStart = Date.parse("9999-12-31T23:00:00Z");

/** The frame of both providers' pages. `next_page` is null on the last page. */
const frame = z.object({
  data: z.array(z.custom<JsonObject>(isObject)),
  has_more: z.boolean(),
  next_page: z.string().nullish(),
});

function readCount(value: unknown, { addIssue }: Pick<z.RefinementCtx, "addIssue">): number {
  const text = textOf(value) ?? "";
  // Sums over thousands of counts stay safe integers.
  if (!/^\d{1,12}$/.test(text)) addIssue({ code: "custom", message: "is not a count" });
  return Number(text);
}

/** Reads a page of buckets, each of which must be one hour. */
function readHours<Result extends z.ZodType>(
  page: JsonObject,
  {
    result,
    startOf,
    countsOf,
  }: {
    result: Result;
    startOf: (bucket: JsonObject) => number;
    countsOf: (result: z.output<Result>) => Omit<HourCounts, "hour">;
  },
): HourPage {
  const { data, has_more, next_page } = frame.parse(page);
  const hours = data.map((bucket) => {
    const start = z.int().max(lastStart).multipleOf(3_600_000).parse(startOf(bucket));
    const hour = new Date(start).toISOString();
    return {
      hour,
      counts: z
        .array(result)
        .parse(bucket.results)
        .map((each) => ({ hour, ...countsOf(each) })),
    };
  });
  return { hours, hasMore: has_more, next: next_page || null };
}

const openAiResult = z.object({
  api_key_id: name,
  model: name,
  num_model_requests: count,
  input_tokens: count,
  input_cached_tokens: optionalCount,
  input_cache_write_tokens: optionalCount,
  output_tokens: optionalCount,
});

/**
 * OpenAI's usage of completions, which include responses, and of embeddings. `input_tokens` includes cached tokens and
 * cache writes; embeddings state no output.
 * https://developers.openai.com/api/reference/resources/admin/subresources/organization/subresources/usage/methods/completions
 */
const openAiHours: HourReport = {
  paths: ["completions", "embeddings"],
  request({ baseUrl, key }, { path, from, to, cursor }) {
    const url = new URL(`${baseUrl}/organization/usage/${path}`);
    url.searchParams.set("start_time", String(Date.parse(from) / 1_000));
    url.searchParams.set("end_time", String(Date.parse(to) / 1_000));
    url.searchParams.set("bucket_width", "1h");
    url.searchParams.set("limit", pageHours);
    for (const by of ["model", "api_key_id"]) url.searchParams.append("group_by[]", by);
    if (cursor !== null) url.searchParams.set("page", cursor);
    return { url, headers: { authorization: `Bearer ${key}` } };
  },
  readPage: (page) =>
    readHours(page, {
      result: openAiResult,
      startOf: ({ start_time }) => Number(textOf(start_time) ?? "") * 1_000,
      countsOf: (result) => ({
        keyId: result.api_key_id ?? null,
        model: result.model ?? unknownModel,
        requests: result.num_model_requests,
        inputTokens: result.input_tokens,
        cachedInputTokens: result.input_cached_tokens,
        cacheWriteTokens: result.input_cache_write_tokens,
        outputTokens: result.output_tokens,
      }),
    }),
};

const anthropicResult = z.object({
  api_key_id: name,
  model: name,
  uncached_input_tokens: count,
  cache_creation: z
    .object({ ephemeral_5m_input_tokens: optionalCount, ephemeral_1h_input_tokens: optionalCount })
    .nullish(),
  cache_read_input_tokens: optionalCount,
  output_tokens: count,
});

/**
 * Anthropic's usage of messages. States no requests. `api_key_id` is null for usage of the Console.
 * https://platform.claude.com/docs/en/api/admin/usage_report/retrieve_messages
 */
const anthropicHours: HourReport = {
  paths: ["messages"],
  request({ baseUrl, key }, { path, from, to, cursor }) {
    const url = new URL(`${baseUrl}/v1/organizations/usage_report/${path}`);
    url.searchParams.set("starting_at", `${from}T00:00:00Z`);
    url.searchParams.set("ending_at", `${to}T00:00:00Z`);
    url.searchParams.set("bucket_width", "1h");
    url.searchParams.set("limit", pageHours);
    for (const by of ["api_key_id", "model"]) url.searchParams.append("group_by[]", by);
    if (cursor !== null) url.searchParams.set("page", cursor);
    return { url, headers: { "x-api-key": key, "anthropic-version": "2023-06-01" } };
  },
  readPage: (page) =>
    readHours(page, {
      result: anthropicResult,
      startOf: ({ starting_at }) => Date.parse(textOf(starting_at) ?? ""),
      countsOf: (result) => {
        const { ephemeral_5m_input_tokens = 0, ephemeral_1h_input_tokens = 0 } = result.cache_creation ?? {};
        const cacheWriteTokens = ephemeral_5m_input_tokens + ephemeral_1h_input_tokens;
        return {
          keyId: result.api_key_id ?? null,
          model: result.model ?? unknownModel,
          requests: null,
          inputTokens: result.uncached_input_tokens + cacheWriteTokens + result.cache_read_input_tokens,
          cachedInputTokens: result.cache_read_input_tokens,
          cacheWriteTokens,
          outputTokens: result.output_tokens,
        };
      },
    }),
};

/** The providers that state their usage by hour. */
export const hourReports: Readonly<Record<string, HourReport>> = { openai: openAiHours, anthropic: anthropicHours };
