import { calculator } from "./calculator.ts";
import { currentTime } from "./current-time.ts";
import type { ToolContext } from "./server-tool.ts";

const tools = { calculator, current_time: currentTime } as const;

export type ServerToolName = keyof typeof tools;

export function isServerTool(name: string): name is ServerToolName {
  return Object.hasOwn(tools, name);
}

/** Returns a tool's name, description and parameters for the model. */
export function toolDefinition(name: ServerToolName): object {
  const { description, parameters } = tools[name];
  return { name, description, parameters };
}

/**
 * Runs a tool that a model has called. If the model caused an error, returns the error as the tool's result, so that
 * the model can correct it.
 * @returns the result for the model, as JSON text
 */
export function runTool(
  call: { name: string; arguments: string; offered: readonly ServerToolName[] },
  context: ToolContext,
): { succeeded: boolean; content: string } {
  const { name } = call;
  if (!isServerTool(name) || !call.offered.includes(name)) return createFailure("This tool does not exist.");
  const { input, run } = tools[name];
  try {
    const parsed = input.safeParse(JSON.parse(call.arguments || "{}"));
    if (!parsed.success) return createFailure("The arguments are not what the tool takes.");
    return {
      succeeded: true,
      content: JSON.stringify((run as (...values: unknown[]) => object)(parsed.data, context)),
    };
  } catch (error) {
    return createFailure(
      error instanceof SyntaxError ? "The arguments are not valid JSON." : String((error as Error).message),
    );
  }
}

function createFailure(error: string): { succeeded: false; content: string } {
  return { succeeded: false, content: JSON.stringify({ error }) };
}
