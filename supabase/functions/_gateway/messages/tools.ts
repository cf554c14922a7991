import { z } from "zod";
import { ourMessages } from "../../_shared/validation-messages.ts";
import { createUnsupportedError } from "../http/parse-body.ts";
import { jsonObject } from "../requests/text-fields.ts";

/**
 * The types of Anthropic's tools end in a version date (the type `ToolUnion` of
 * github.com/anthropics/anthropic-sdk-typescript).
 */
const withDate = (name: string) => new RegExp(`^${name}_\\d{8}$`);

/** Types of Anthropic's tools that run at the client or search only the request's own tools. They cost only tokens. */
const clientTypes = [
  withDate("bash"),
  withDate("text_editor"),
  withDate("memory"),
  withDate("computer"),
  withDate("computer_toolset"),
  withDate("browser_toolset"),
  /^tool_search_tool_(?:regex|bm25)(?:_\d{8})?$/,
];
const searchType = withDate("web_search");
const fetchType = withDate("web_fetch");

const maxUses = 100;
const maxFetchedTokens = 1_000_000;
const uses = z.number().int().min(1).max(maxUses).nullish();

/**
 * The limits of a search or fetch tool whose request states none. Pydantic AI, LangChain and the AI SDK state none by
 * default, but each use costs money, so the reservation needs limits. Anthropic estimates 25,000 tokens for a large page
 * of documentation (https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-fetch-tool).
 */
const defaultLimits = { max_uses: 5, max_content_tokens: 25_000 } as const;

const customTool = z.looseObject({
  type: z.literal("custom").nullish(),
  name: z.string().min(1).max(128),
  input_schema: jsonObject,
});
const clientTool = z.looseObject({ type: z.string() });
const searchTool = z.looseObject({ max_uses: uses });
const fetchTool = z.looseObject({
  max_uses: uses,
  max_content_tokens: z.number().int().min(1).max(maxFetchedTokens).nullish(),
});

type Tool = { type?: string | null | undefined } & Record<string, unknown>;

/** A tool of a request. The type alone selects the schema, so that an error names the invalid member. */
export const toolSchema = z.looseObject({ type: z.string().nullish() }).superRefine((value: Tool, context) => {
  const { error } = chooseToolSchema(value).safeParse(value, ourMessages);
  for (const { message, path } of error?.issues ?? []) context.addIssue({ code: "custom", message, path });
});

function chooseToolSchema({ type }: Tool): z.ZodType {
  if (type == null || type === "custom") return customTool;
  if (searchType.test(type)) return searchTool;
  return fetchType.test(type) ? fetchTool : clientTool;
}

const servedTypes = [/^custom$/, searchType, fetchType, ...clientTypes];

/**
 * Refuses tools of unknown types. Tools that the provider runs are supported only if the gateway has a price for them
 * and they keep no state at the provider.
 * @throws GatewayError `unsupported_parameter`
 */
export function refuseTools(tools: readonly Tool[]): void {
  const at = tools.findIndex(({ type }) => type != null && !servedTypes.some((pattern) => pattern.test(type)));
  if (at >= 0) throw createUnsupportedError(`tools.${at}.type`, "Run the tool in your client, or leave it out.");
}

/**
 * Returns the tools with a limit for each search and fetch tool. Each search has a fee, and fetched content counts as
 * input.
 */
export function limitServerTools<Each extends Tool>(tools: readonly Each[]): Each[] {
  return tools.map((each) => {
    const isFetch = fetchType.test(each.type ?? "");
    if (!isFetch && !searchType.test(each.type ?? "")) return each;
    const max_uses = each.max_uses ?? defaultLimits.max_uses;
    const max_content_tokens = each.max_content_tokens ?? defaultLimits.max_content_tokens;
    const isLimited = each.max_uses === max_uses && (!isFetch || each.max_content_tokens === max_content_tokens);
    return isLimited ? each : { ...each, max_uses, ...(isFetch ? { max_content_tokens } : {}) };
  });
}

/** How often a request's server tools may run, and how many tokens of their results the model may read in all. */
export type ServerToolUse = { searches: number; uses: number; resultTokens: number };

/**
 * Assumed maximum tokens of one search's results. Anthropic publishes no limit. After one search, its examples have
 * 6,039 input tokens (https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool) and 8,003 more
 * than before (https://platform.claude.com/docs/en/build-with-claude/streaming).
 */
const searchResultTokens = 10_000;

/**
 * Returns the maximum use of a request's server tools. Each later reading includes the results so far, so the costliest
 * order has the largest results first.
 */
export function computeMaxServerToolUse(tools: readonly Tool[]): ServerToolUse {
  let searches = 0;
  const results: { tokens: number; count: number }[] = [];
  for (const each of tools) {
    const count = Number(each.max_uses ?? 0);
    if (searchType.test(each.type ?? "")) {
      searches += count;
      results.push({ tokens: searchResultTokens, count });
    } else if (fetchType.test(each.type ?? "")) results.push({ tokens: Number(each.max_content_tokens), count });
  }
  const uses = results.reduce((sum, { count }) => sum + count, 0);
  let resultTokens = 0;
  let readings = uses;
  for (const { tokens, count } of results.toSorted((one, other) => other.tokens - one.tokens)) {
    // The first of these results is in all further readings, the second in one less, and so on.
    resultTokens += tokens * ((readings * (readings + 1) - (readings - count) * (readings - count + 1)) / 2);
    readings -= count;
  }
  return { searches, uses, resultTokens };
}
