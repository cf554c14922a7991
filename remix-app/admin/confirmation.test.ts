import { expect, test } from "vitest";
import { appSteps } from "./app-steps.ts";
import { approvalSteps } from "./key-approvals.ts";
import { newModel } from "./model-scope.ts";
import { modelSteps, type StepScope } from "./model-steps.ts";
import type { ConsoleRoute } from "./models.ts";
import { clientSteps } from "./openid-client-steps.ts";
import { mfaPolicyChanges } from "./policy-step.ts";

const routeAt = (position: number, enabled = true) => ({ position, enabled }) as ConsoleRoute;
/** A model whose first route is changed. */
const withRoutes = (...routes: ConsoleRoute[]): StepScope => ({
  model: { ...newModel, id: "orbit-large", routes },
  route: routes[0] ?? null,
  price: null,
  providerId: "",
  minInputTokens: 0,
  grantee: { plan: null, workspace: null, name: "" },
});
const scope = withRoutes(routeAt(1), routeAt(2));
const overlap = (overlapSeconds: string) => ({ overlapSeconds });

/** Returns which steps of a table must be confirmed by typing. */
function typedSteps<Step extends { destroys?: unknown }>(
  steps: Record<string, Step>,
  destroys: (step: Step) => unknown = (step) => step.destroys,
): Record<string, boolean> {
  return Object.fromEntries(Object.entries(steps).map(([name, step]) => [name, Boolean(destroys(step))]));
}

test("only changes that delete something or stop something from working are confirmed by typing", () => {
  const registry = { edit: false, enable: false, disable: true, rotate: false };
  const rotation = overlap("3600");
  expect(typedSteps(appSteps, (step) => step.destroys?.(rotation))).toEqual({
    ...registry,
    link: false,
    unlink: false,
  });
  expect(typedSteps(clientSteps, (step) => step.destroys?.(rotation))).toEqual(registry);
  expect(typedSteps(approvalSteps)).toEqual({ approve: false, decline: false, withdraw: true });
  expect(typedSteps(mfaPolicyChanges)).toEqual({ require: true, "make-optional": false, reset: true });
  expect(
    Object.fromEntries(Object.entries(modelSteps).map(([name, step]) => [name, step.confirmationOf(scope) !== null])),
  ).toEqual({
    new: false,
    edit: false,
    enable: false,
    disable: true,
    delete: true,
    route: false,
    "remove-route": false,
    grant: false,
    withdraw: true,
    price: false,
    "cancel-price": false,
  });
});

test.each([
  ["the last enabled route", [routeAt(1)], true],
  ["the only enabled route", [routeAt(1), routeAt(2, false)], true],
  ["one of two enabled routes", [routeAt(1), routeAt(2)], false],
  ["a disabled route", [routeAt(1, false)], false],
])("removing %s of a model is confirmed by typing only if callers lose the model", (_, routes, isTyped) => {
  const typed = isTyped ? { text: "orbit-large", what: "the model’s ID" } : null;
  expect(modelSteps["remove-route"].confirmationOf(withRoutes(...routes))).toEqual(typed);
});

test.each([
  ["0", true],
  ["", true],
  ["0.0", true],
  ["1", false],
  ["3600", false],
  ["none", false],
])("a rotation with an overlap of %j seconds is confirmed by typing: %j", (seconds, isTyped) => {
  for (const { rotate } of [appSteps, clientSteps]) expect(rotate.destroys?.(overlap(seconds))).toBe(isTyped);
});
