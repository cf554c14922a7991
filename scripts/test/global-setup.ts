import type { TestProject } from "vitest/node";
import { installHostedDeno } from "../install.ts";
import { startStack } from "./start-stack.ts";

/**
 * Starts a stack for the tests unless GATEHOUSE_STACK names one. Tests of the suite `hosted` first get the Deno of hosted
 * Supabase's runtime.
 * @returns a function that stops the started stack
 */
export default async function setup({ name }: TestProject): Promise<(() => Promise<void>) | undefined> {
  if (name === "hosted") await installHostedDeno(".");
  if (process.env.GATEHOUSE_STACK) return undefined;
  const stack = await startStack();
  process.env.GATEHOUSE_STACK = stack.file;
  return stack.stop;
}
