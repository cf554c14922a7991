import { expect, test } from "vitest";
import { errorBody, GatewayError, isErrorCode } from "../../supabase/functions/_gateway/http/errors.ts";
import { gatewayRefusals, refuseForGateway } from "./gateway-refusal.ts";

test.for(Object.keys(gatewayRefusals) as (keyof typeof gatewayRefusals)[])(
  "returns the refusal %s exactly as the gateway does",
  async (code) => {
    if (!isErrorCode(code)) throw new Error(`${code} is not of the gateway's list`);
    const own = new GatewayError(code, { param: "x" });
    const response = refuseForGateway(code, { requestId: "id", aiUrl: "https://ai.test", param: "x" });
    expect([response.status, await response.json()]).toEqual([own.status, errorBody(own, "id")]);
    expect(response.headers.get("x-should-retry")).toBe(own.headers["x-should-retry"] ?? null);
  },
);
