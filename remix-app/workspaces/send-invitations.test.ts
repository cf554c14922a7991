import { expect, test } from "vitest";
import { emailList, maxInvited } from "./send-invitations.ts";

const addresses = (count: number) => Array.from({ length: count }, (_, nth) => `p${nth}@example.com`);

test("reads addresses separated by spaces, commas, semicolons and lines, each once", () => {
  const text = " Ada@example.com, grace@example.com;\nada@example.com\tlin@example.com\n";
  expect(emailList.parse(text)).toEqual(["ada@example.com", "grace@example.com", "lin@example.com"]);
});

test.each([
  ["", "Enter an email address, such as name@example.com."],
  ["ada", "Enter an email address, such as name@example.com."],
  ["ada@example.com, grace, lin@", "Correct or remove what isn’t an email address: grace, lin@"],
  [addresses(maxInvited + 1).join(" "), "Enter at most 10 addresses at once."],
])("refuses the addresses %j", (text, message) => {
  expect(emailList.safeParse(text).error?.issues.map((issue) => issue.message)).toEqual([message]);
});

test("reads as many addresses as a person may invite in a row", () => {
  expect(emailList.parse(addresses(maxInvited).join("\n"))).toHaveLength(maxInvited);
});
