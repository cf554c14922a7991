import type { AppLoadContext } from "@remix-run/server-runtime";
import type { z } from "zod";
import { problem } from "../http/problem.ts";
import { callConsole } from "./console-change.ts";

/**
 * What a function of the database tells the console.
 * @throws Response 503 UNAVAILABLE where it could not be asked, or answered what nobody here can read
 */
export async function readConsole<Schema extends z.ZodType>(
  context: AppLoadContext,
  { name, args, schema }: { name: string; args: Record<string, unknown>; schema: Schema },
): Promise<z.output<Schema>> {
  const { data, error } = await callConsole(context, { name, args });
  const read = schema.safeParse(data);
  if (error || !read.success) throw problem("UNAVAILABLE", { requestId: context.requestId });
  return read.data;
}
