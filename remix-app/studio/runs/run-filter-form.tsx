import { Button, ButtonLink } from "../../ui/button.tsx";
import { Field, Select } from "../../ui/field.tsx";
import { statusNames } from "./run-facts.ts";
import type { RunFilterOptions } from "./runs.ts";

const statuses = ["running", "succeeded", "failed", "cancelled"] as const;
const texts = [
  ["feature", "Feature"],
  ["entityId", "Entity label"],
  ["requestId", "Request ID"],
] as const;
const fields: readonly string[] = [
  "status",
  "model",
  "keyId",
  "appId",
  "memberId",
  "provider",
  ...texts.map(([name]) => name),
];

type Choice = { value: string; label: string };

/** Filters the list of runs by query parameters, and keeps the other parameters. */
export function RunFilterForm({
  filterValues,
  search,
  options,
}: {
  filterValues: Record<string, string>;
  search: string;
  options: RunFilterOptions;
}) {
  const otherParameters = [...new URLSearchParams(search)].filter(
    ([name]) => name !== "cursor" && !fields.includes(name),
  );
  const { models, keys, apps, members, providers } = options;
  const named = (list: readonly { id: string; name: string }[]) =>
    list.map(({ id, name }) => ({ value: id, label: name }));
  const selects: readonly (readonly [string, string, readonly Choice[]])[] = [
    [
      "status",
      "Status",
      [
        ...statuses.map((status) => ({ value: status, label: statusNames[status] })),
        { value: "refused", label: "Refused" },
      ],
    ],
    ["model", "Model", models.map((id) => ({ value: id, label: id }))],
    ["keyId", "Key", keys.map(({ id, name, ended }) => ({ value: id, label: ended ? `${name} (inactive)` : name }))],
    ["appId", "App", named(apps)],
    ["memberId", "Member", named(members)],
    ["provider", "Provider", (providers ?? []).map((id) => ({ value: id, label: id }))],
  ];
  return (
    <form className="flex flex-wrap items-end gap-3">
      {otherParameters.map(([name, value]) => (
        <input key={`${name}=${value}`} type="hidden" name={name} value={value} />
      ))}
      {selects.map(([name, label, choices]) =>
        choices.length > 0 || filterValues[name] ? (
          <Choose key={name} name={name} label={label} choices={choices} chosen={filterValues[name] ?? ""} />
        ) : null,
      )}
      {texts.map(([name, label]) => (
        <div key={name} className="min-w-0 flex-1 basis-36 sm:max-w-72">
          <Field name={name} label={label} autoComplete="off" spellCheck={false} defaultValue={filterValues[name]} />
        </div>
      ))}
      <Button variant="secondary">Filter</Button>
      {fields.some((name) => filterValues[name]) ? (
        <ButtonLink variant="quiet" href={`?${new URLSearchParams(otherParameters)}`}>
          Clear filters
        </ButtonLink>
      ) : null}
    </form>
  );
}

function Choose({
  name,
  label,
  choices,
  chosen,
}: {
  name: string;
  label: string;
  choices: readonly Choice[];
  chosen: string;
}) {
  const isListed = chosen === "" || choices.some(({ value }) => value === chosen);
  return (
    <Select name={name} label={label} defaultValue={chosen} className="min-w-0 flex-1 basis-36">
      <option value="">Any</option>
      {isListed ? null : <option value={chosen}>{chosen}</option>}
      {choices.map(({ value, label: text }) => (
        <option key={value} value={value}>
          {text}
        </option>
      ))}
    </Select>
  );
}
