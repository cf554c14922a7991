import { calculator } from "./calculator.ts";
import { currentTime } from "./current-time.ts";
import type { ToolContext } from "./server-tool.ts";

/** The gateway's own tools. There are no others. */
const tools = { calculator, current_time: currentTime } as const;

export type ServerToolName = keyof typeof tools;

/** Whether there is a server tool of that name. */
export function isServerTool(name: string): name is ServerToolName {
  return Object.hasOwn(tools, name);
}

/** What a model is told of a tool. */
export function toolDefinition(name: ServerToolName): object {
  const { description, parameters } = tools[name];
  return { name, description, parameters };
}

/**
 * Runs a tool that a model has called. A fault of the model's is told to the model, which may do better.
 * @returns what the model is told, as JSON text
 */
export function runTool(
  call: { name: string; arguments: string; offered: readonly ServerToolName[] },
  context: ToolContext,
): { succeeded: boolean; content: string } {
  const { name } = call;
  if (!isServerTool(name) || !call.offered.includes(name)) return failed("This tool does not exist.");
  const { input, run } = tools[name];
  try {
    const parsed = input.safeParse(JSON.parse(call.arguments || "{}"));
    if (!parsed.success) return failed("The arguments are not what the tool takes.");
    return {
      succeeded: true,
      content: JSON.stringify((run as (...values: unknown[]) => object)(parsed.data, context)),
    };
  } catch (error) {
    return failed(
      error instanceof SyntaxError ? "The arguments are not valid JSON." : String((error as Error).message),
    );
  }
}

function failed(error: string): { succeeded: false; content: string } {
  return { succeeded: false, content: JSON.stringify({ error }) };
}
