import { z } from "zod";
import { GatewayError } from "../http/errors.ts";
import { treatNullAsAbsent } from "../http/parse-body.ts";
import { isServerTool, type ServerToolName } from "./run-tool.ts";

const maxSteps = z.number().int().min(1).max(8);
const defaultMaxSteps = 4;
const toolName = z.string().max(64);

/** The request fields that configure server tools. A request can also name server tools as strings in `tools`. */
export const toolLoopFields = {
  max_steps: maxSteps.optional(),
  platform: treatNullAsAbsent(
    z.strictObject({ max_steps: maxSteps.optional(), tools: z.array(toolName).max(128).optional() }),
  ).optional(),
};
export const serverToolName = toolName;

/** The gateway's own tools that a call may use, and the maximum number of model calls. */
export type ServerTools = { maxSteps: number; tools: readonly ServerToolName[] };

/**
 * Reads which server tools a request enables, in `platform` or in the request's own fields.
 * @returns undefined if no server tool is requested; `max_steps` alone has no effect
 * @throws GatewayError `invalid_request` for unknown tools and for combinations that aren't allowed
 */
export function readServerTools(request: {
  platform?: { max_steps?: number; tools?: string[] };
  tools?: readonly (object | string)[];
  max_steps?: number;
  n?: number;
}): ServerTools | undefined {
  const { platform, tools = [], max_steps, n } = request;
  const listed = tools.flatMap((tool, index) =>
    typeof tool === "string" ? [{ name: tool, param: `tools.${index}` }] : [],
  );
  const native = (platform?.tools ?? []).map((name, index) => ({ name, param: `platform.tools.${index}` }));
  if (listed.length > 0 && native.length > 0) {
    throw invalid("platform.tools", "Server tools can be listed in tools or in platform.tools: send one.");
  }
  if (max_steps !== undefined && platform?.max_steps !== undefined) {
    throw invalid("max_steps", "max_steps and platform.max_steps mean the same: send one.");
  }
  const names = [...listed, ...native].map(({ name, param }) => {
    if (!isServerTool(name)) throw invalid(param, "This server tool does not exist.");
    return name;
  });
  if (names.length === 0) return undefined;
  if (tools.some((tool) => typeof tool !== "string")) {
    throw invalid("tools", "Server tools and functions of the client's do not mix.");
  }
  if ((n ?? 1) > 1) throw invalid("n", "With server tools there is one choice.");
  return { maxSteps: max_steps ?? platform?.max_steps ?? defaultMaxSteps, tools: [...new Set(names)] };
}

function invalid(param: string, message: string): GatewayError {
  return new GatewayError("invalid_request", { param, message });
}
