import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import { Hono } from "hono";
import { createResource, type ResourceCaller, type ResourceOptions } from "#satellite/resource";

/** An MCP server with a tool that names the caller. Each request has a server of its own. */
export function createTools(options: ResourceOptions = {}): Hono {
  const resource = createResource({ scopes: ["openid", "profile"], ...options });
  const app = new Hono();
  app.get("/.well-known/*", (c) => resource.handle(c.req.raw) ?? c.notFound());
  app.all("/mcp", async (c) => {
    const caller = await resource.authenticate(c.req.raw);
    if (caller instanceof Response) return caller;
    const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
    await serverFor(caller).connect(transport);
    return transport.handleRequest(c.req.raw);
  });
  return app;
}

function serverFor({ id, name }: ResourceCaller): McpServer {
  const server = new McpServer({ name: "tools", version: "1.0.0" });
  server.registerTool("whoami", { description: "Says who you are." }, () => ({
    content: [{ type: "text", text: `You are ${name ?? id}.` }],
  }));
  return server;
}
