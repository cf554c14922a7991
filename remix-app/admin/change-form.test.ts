import { expect, test } from "vitest";
import { confirmationWords } from "./change-form.tsx";

test("a confirmation quotes the text to type and says what the text is, such as a workspace's name", () => {
  expect(confirmationWords({ text: "acme", what: "the workspace’s name" })).toEqual({
    label: "Type “acme” to confirm",
    hint: "This is the workspace’s name.",
  });
});

test("the confirmation for creating something asks for its new id again, without quoting the id", () => {
  const label = "Type the plan’s ID again to confirm";
  expect(confirmationWords({ label })).toEqual({ label });
});
