import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { AppLoadContext } from "@remix-run/node";

/**
 * Starts a Data API that answers each database function with a fixed value, and with an error otherwise.
 * @returns a request's context that uses it
 */
export async function startDataApi(answers: Record<string, unknown>) {
  const server = createServer((request, response) => {
    const name = request.url?.split("/").at(-1) ?? "";
    response.writeHead(name in answers ? 200 : 503, { "content-type": "application/json" });
    response.end(JSON.stringify(name in answers ? answers[name] : { code: "PGRST001", message: "no answer" }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const env = {
    SUPABASE_URL: url,
    SUPABASE_SECRET_KEY: "secret",
    BASE_URL: "http://localhost",
    BRAND_NAME: "Gatehouse",
  };
  const context = { env, requestId: "request", clientAddress: "192.0.2.1", userAgent: "test" };
  return {
    context: context as unknown as AppLoadContext,
    close: () => new Promise((resolve) => server.close(resolve)),
  };
}
