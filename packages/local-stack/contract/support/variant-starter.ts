import { createServer } from "node:http";
import { type RunningServer, type Surroundings, startServer } from "./servers.ts";

/**
 * Lets test processes start servers with other settings: they send the settings over HTTP and get the server's URL.
 * Equal settings share a server.
 * @returns the URL for these requests, and how to stop all servers
 */
export async function startVariants(surroundings: Surroundings) {
  const servers = new Map<string, Promise<RunningServer>>();
  const starter = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const settings = Buffer.concat(chunks).toString();
      const started = servers.get(settings) ?? startServer(surroundings, JSON.parse(settings));
      servers.set(settings, started);
      started.then(
        ({ url }) => response.end(JSON.stringify({ url })),
        (error: unknown) => response.writeHead(500).end(String(error)),
      );
    });
  });
  await new Promise<void>((resolve) => starter.listen(0, "127.0.0.1", resolve));
  const address = starter.address();
  if (address === null || typeof address === "string") throw new Error("the starter has no address");
  const stop = async () => {
    starter.closeAllConnections();
    starter.close();
    const outcomes = await Promise.allSettled(servers.values());
    await Promise.all(outcomes.map((outcome) => (outcome.status === "fulfilled" ? outcome.value.stop() : undefined)));
  };
  return { url: `http://127.0.0.1:${address.port}`, stop };
}
