import { z } from "zod";
import { createUnsupportedError } from "../http/parse-body.ts";

/**
 * OpenAI's tools that run at a provider or a client and have no price here (the type `Tool` of openai-node,
 * resources/responses/responses.ts). They fetch, search, store or run code. Requests are sent without them, and the
 * answer lists their names.
 */
const hostedToolTypes = [
  "apply_patch",
  "code_interpreter",
  "computer",
  "computer_use",
  "computer_use_preview",
  "file_search",
  "image_generation",
  "local_shell",
  "mcp",
  "programmatic_tool_calling",
  "shell",
  "tool_search",
  "web_search",
  "web_search_2025_08_26",
  "web_search_preview",
  "web_search_preview_2025_03_11",
] as const;
const hostedTypes: ReadonlySet<unknown> = new Set(hostedToolTypes);

/** Calls and results of hosted tools in a response's input (the type `ResponseInputItem` of openai-node). */
const hostedItemTypes = [
  "apply_patch_call",
  "apply_patch_call_output",
  "code_interpreter_call",
  "computer_call",
  "computer_call_output",
  "file_search_call",
  "image_generation_call",
  "local_shell_call",
  "local_shell_call_output",
  "mcp_approval_request",
  "mcp_approval_response",
  "mcp_call",
  "mcp_list_tools",
  "program",
  "program_output",
  "shell_call",
  "shell_call_output",
  "web_search_call",
] as const;
const hostedItems: ReadonlySet<unknown> = new Set(hostedItemTypes);

/** A call or result of a hosted tool. Only the type and id are read. */
export const hostedItem = z.object({ type: z.enum(hostedItemTypes), id: z.string().optional() });

export function isHostedItem<Item extends { type: string }>(
  item: Item,
): item is Extract<Item, z.infer<typeof hostedItem>> {
  return hostedItems.has(item.type);
}

/** A hosted tool in a request's `tools`. Only its type is read. */
export const hostedTool = z.object({ type: z.enum(hostedToolTypes) });

/**
 * A hosted tool in a Responses API request. The client may run `tool_search` itself, as Codex does to find the tools of
 * MCP servers.
 */
export const hostedOrClientTool = z.looseObject({
  ...hostedTool.shape,
  execution: z.enum(["server", "client"]).optional(),
});

export const toolChoiceAdvice = "Name a function or custom tool of your own.";

type Tool = string | { type: string; execution?: unknown };
type ToolFields = {
  tools?: readonly Tool[];
  tool_choice?: string | object;
  parallel_tool_calls?: boolean;
  platform?: { tools?: readonly string[] };
};

/** Returns whether a provider would run the tool. */
function isHosted(tool: Tool): tool is Exclude<Tool, string> {
  if (typeof tool === "string" || !hostedTypes.has(tool.type)) return false;
  return tool.type !== "tool_search" || tool.execution !== "client";
}

/** Returns the tools that are kept, and the types of the hosted tools that were left out. */
export function removeHostedTools<Listed extends Tool>(
  tools: readonly Listed[],
): { tools: Listed[]; ignored: string[] } {
  const ignored = tools.flatMap((tool) => (isHosted(tool) ? [tool.type] : []));
  return { tools: tools.filter((tool) => !isHosted(tool)), ignored };
}

/**
 * Removes hosted tools from a request's body. If no tools are left, also removes all other tool settings. This includes an
 * empty list, which Xcode sends with every call (github.com/local-inference-lab/vllm/pull/193).
 * @param allowed the tools to which an `allowed_tools` choice refers
 * @param options.hasOthers whether the request's input items define more tools
 * @returns the body, and the types that were left out
 * @throws GatewayError `unsupported_parameter` if a tool call is required but only hosted tools are allowed
 */
export function leaveOutHostedTools<Fields extends ToolFields>(
  body: Fields,
  allowed: readonly { type?: unknown }[] | undefined,
  { hasOthers = false } = {},
): { body: Fields; ignored: string[] } {
  const { tool_choice: choice, platform: { tools: serverTools = [] } = {} } = body;
  const { tools, ignored } = removeHostedTools(body.tools ?? []);
  if (allowed?.some(({ type }) => hostedTypes.has(type))) throw createUnsupportedError("tool_choice", toolChoiceAdvice);
  if (ignored.length === 0 && (tools.length > 0 || body.tools === undefined)) return { body, ignored };
  if (tools.length > 0 || serverTools.length > 0 || hasOthers) return { body: { ...body, tools }, ignored };
  if (choice !== undefined && choice !== "auto" && choice !== "none")
    throw createUnsupportedError("tool_choice", toolChoiceAdvice);
  const { tools: _, tool_choice, parallel_tool_calls, ...others } = body;
  return { body: others as Fields, ignored };
}
