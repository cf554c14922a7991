import { expect, test } from "vitest";
import { eventGroups, eventKinds, isEventGroup } from "./event-kinds.ts";

test("every kind of event is in exactly one group", () => {
  const grouped = Object.values(eventGroups).flatMap(({ kinds }): readonly string[] => kinds);
  expect([...grouped].sort()).toEqual(Object.keys(eventKinds).sort());
});

test.each([
  ["connections", true],
  ["toString", false],
  [null, false],
])("the filter %j names a group: %s", (text, isGroup) => {
  expect(isEventGroup(text)).toBe(isGroup);
});
