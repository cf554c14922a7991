import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import type { RouteTestRequest } from "#shared/provider-setup.ts";
import { type RouteTest, testRoute } from "../../gateway/provider-setup.ts";
import { callFunction } from "../../supabase/data-api.ts";

/** The admin or service account that makes a test. */
export type Tester = { actor: string } | { serviceAccount: string };
/** What a test needs of the request. */
export type TestContext = Pick<AppLoadContext, "clientAddress" | "env" | "requestId">;

/**
 * Makes a test call to a provider, and records it in the audit log, because the provider may charge for it. A test that
 * the gateway refused to make is not recorded.
 * @throws Response 503 UNAVAILABLE if the test was not recorded
 */
export async function testRouteOnRecord(
  context: TestContext,
  { tester, signal, ...request }: RouteTestRequest & { tester: Tester; signal: AbortSignal },
): Promise<RouteTest> {
  const test = await testRoute(context, { ...request, signal });
  const result = describeResult(test);
  if (result === null) return test;
  const { requestId, clientAddress: ip } = context;
  const { provider, model } = request;
  await callFunction(context, {
    name: "private.record_provider_test",
    args: { test: { ...tester, provider, model, result, requestId, ip } },
    schema: z.null(),
  });
  return test;
}

function describeResult(test: RouteTest): string | null {
  switch (test.outcome) {
    case "answered":
      return "answered";
    case "failed":
      return test.failure;
    case "fault":
      return test.fault;
    case "refused":
      return null;
  }
}
