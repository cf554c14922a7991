import { Form } from "@remix-run/react";
import { Button } from "../../ui/button.tsx";
import { Field, Select } from "../../ui/field.tsx";

const statuses = ["running", "succeeded", "failed", "cancelled"] as const;

const fields = ["status", "model", "feature", "requestId"];

/** Narrows the list of runs; what was asked for is in the address, and what else is there stays. */
export function RunFilterForm({ asked, search }: { asked: Record<string, string>; search: string }) {
  const kept = [...new URLSearchParams(search)].filter(([name]) => name !== "cursor" && !fields.includes(name));
  return (
    <Form className="flex flex-wrap items-end gap-3">
      {kept.map(([name, value]) => (
        <input key={`${name}=${value}`} type="hidden" name={name} value={value} />
      ))}
      <Select name="status" label="Status" defaultValue={asked.status ?? ""} className="basis-36">
        <option value="">Any</option>
        {statuses.map((status) => (
          <option key={status} value={status}>
            {status}
          </option>
        ))}
      </Select>
      {(
        [
          ["model", "Model"],
          ["feature", "Feature"],
          ["requestId", "Request id"],
        ] as const
      ).map(([name, label]) => (
        <div key={name} className="min-w-0 flex-1 basis-36">
          <Field name={name} label={label} autoComplete="off" spellCheck={false} defaultValue={asked[name]} />
        </div>
      ))}
      <Button variant="secondary">Filter</Button>
    </Form>
  );
}
