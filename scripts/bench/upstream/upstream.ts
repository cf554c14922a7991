import path from "node:path";
import { z } from "zod";
import { type ServiceProcess, startServer } from "../gateway/service-process.ts";

const program = path.resolve(import.meta.dirname, "../processes/upstream.ts");

const calls = z.object({
  answered: z.number(),
  streams: z.record(
    z.string(),
    z.object({ sha256: z.string(), chunks: z.number(), end: z.enum(["open", "whole", "cancelled"]) }),
  ),
});

export type UpstreamCalls = z.infer<typeof calls>;

/**
 * Starts the bench's model provider.
 * @param port the port of the stack's own provider, which is not running; by default a free port
 */
export function startUpstream(port?: number): Promise<ServiceProcess> {
  return startServer({ args: () => [program], ...(port === undefined ? {} : { port }) });
}

/** Returns the calls and streams the upstream has seen so far. */
export async function readUpstream({ url }: { url: string }): Promise<UpstreamCalls> {
  return calls.parse(await (await fetch(`${url}/calls`)).json());
}
