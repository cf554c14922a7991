import { expect, test } from "vitest";
import { readStack } from "../../../../scripts/test/stack.ts";
import { createGatewayTenant } from "../../../tests/gateway/tenant.ts";

const messages = [{ role: "user", content: "hello there" }];

// The whole path: what SQL proposes is admitted when the client sends it in its API's field.
test.for([
  ["chat/completions", { model: "demo-chat", messages, max_completion_tokens: 30_000 }, "max_completion_tokens"],
  ["chat/completions", { model: "demo-chat", messages, max_tokens: 30_000 }, "max_tokens"],
  ["chat/completions", { model: "demo-chat", messages }, "max_completion_tokens"],
  ["responses", { model: "demo-chat", input: "hello there", max_output_tokens: 30_000 }, "max_output_tokens"],
  ["responses", { model: "demo-chat", input: "hello there" }, "max_output_tokens"],
] as const)(
  "a call of %s is admitted with the output limit that its refusal proposes (case %#)",
  async ([path, body, field]) => {
    const tenant = await createGatewayTenant();
    const stack = readStack();
    const send = (more: object) =>
      fetch(`${stack.ai}/v1/${path}`, {
        method: "POST",
        headers: { authorization: `Bearer ${tenant.key}`, "content-type": "application/json" },
        body: JSON.stringify({ ...body, ...more }),
      });
    await tenant.db.query(
      "insert into ai.budgets (scope, subject_id, workspace_id, limit_usd) values ('key', $1, $2, 0.0006)",
      [tenant.keyId, tenant.workspaceId],
    );
    const response = await send({});
    const { error } = await response.json();
    expect(response.status).toBe(402);
    expect(response.headers.get("x-should-retry")).toBe("false");
    expect(error).toMatchObject({
      code: "budget_exceeded",
      doc_url: `${stack.base}/docs/errors#budget_exceeded`,
      limit: { kind: "budget", scope: "key", name: "test", limit_usd: 0.0006 },
      fitting_output_limit: expect.any(Number),
    });
    const fits = error.fitting_output_limit;
    expect(error.message).toMatch(
      /^The budget of the key “test” has \$0\.0006 left this month; this request may cost up to \$0\.\d+\. With `/,
    );
    expect(error.message).toContain(`With \`${field}\` ${fits.toLocaleString("en")} it fits.`);
    // A shorter body leaves room for a few more tokens, but not for many.
    expect((await send({ [field]: fits + 50 })).status).toBe(402);
    expect((await send({ [field]: fits })).status).toBe(200);
    await tenant.close();
  },
);
