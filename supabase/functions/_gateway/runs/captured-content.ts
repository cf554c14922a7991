import type { Run } from "../database/database.ts";
import type { RunServices } from "./run.ts";

/** A call of a server tool, with the model's arguments and the tool's result. */
export type ToolUse = { name: string; arguments: string; result: string };

/** Collects the content of a run, if its workspace captures content. */
export type CapturedContent = {
  /**
   * Stores the raw request body, of at most `maxStoredSize` bytes, as the prompt.
   * @returns a promise that resolves when it is stored, or undefined if content isn't captured
   */
  storePrompt: (body: Uint8Array) => Promise<void> | undefined;
  recordTool: (use: ToolUse) => void;
  /** Stores the content and then calls `then`. Calls `then` immediately if nothing is captured. */
  storeAnswer: (answer: () => string | undefined, then: () => void) => void;
};

/**
 * The maximum size of a stored prompt, in bytes, and of a stored answer or record of tool use, in characters. Anything
 * larger is not stored.
 */
export const maxStoredSize = 1024 * 1024;

/** Captures the content of a run if the workspace's policy enables it. Otherwise ignores the content. */
export function captureContent(
  { database, settlements, waitUntil, report }: Pick<RunServices, "database" | "settlements" | "waitUntil" | "report">,
  run: Run,
): CapturedContent {
  const { capture, created_at, run_id: id } = run;
  const tools: ToolUse[] = [];
  if (!capture) return { storePrompt: () => undefined, recordTool() {}, storeAnswer: (_, then) => then() };

  const store = (content: { prompt?: string; tools?: string; answer?: string }) =>
    database.storeRunContent({ created_at, id, ...content }).catch((error) => report(error));

  return {
    storePrompt(body) {
      const storing = store({ prompt: new TextDecoder().decode(body) });
      waitUntil(storing);
      return storing;
    },
    recordTool(use) {
      tools.push(use);
    },
    storeAnswer(answer, then) {
      const toolUses = tools.length > 0 ? JSON.stringify(tools) : undefined;
      const content = { tools: dropOversized(toolUses), answer: dropOversized(answer()) };
      if (content.tools === undefined && content.answer === undefined) return then();
      // The run may end only after its answer is stored, so that a repeated call can replay it.
      const storing = store(content).finally(then);
      settlements.awaitOutcome(storing);
      waitUntil(storing);
    },
  };
}

function dropOversized(text: string | undefined): string | undefined {
  return text !== undefined && text.length <= maxStoredSize ? text : undefined;
}
