import {
  askFromDevice,
  createDeviceClient,
  type DeviceClient,
  deleteDeviceClient,
} from "../scripts/test/device-requests.ts";
import { query } from "../scripts/test/people.ts";
import { test as base, expect, expectWellMade, signIn } from "./test.ts";

const test = base.extend<{ client: DeviceClient }>({
  // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the parameter's pattern
  client: async ({}, use) => {
    const client = await createDeviceClient({ displayName: "Northwind CLI" });
    await use(client);
    await deleteDeviceClient(client);
  },
});

const isApproved = async (userCode: string) =>
  (
    await query("select from private.device_authorizations where user_code = $1 and approved_at is not null", [
      userCode,
    ])
  ).length === 1;

test("a person enters a device code, sees which app requests access, and approves it", async ({
  page,
  member,
  client,
}) => {
  const { userCode } = await askFromDevice(client);
  await signIn(page, member, { at: "/login?returnUrl=%2Fdevice" });
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Connect a device");

  await page.getByLabel("Code").fill("hello");
  await page.getByRole("button", { name: "Continue" }).click();
  await expect(page.getByRole("alert")).toContainText("We don’t know this code");

  await page.getByLabel("Code").fill(userCode.toLowerCase());
  await page.getByRole("button", { name: "Continue" }).click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Sign in to Northwind CLI on a device");
  await expect(page.getByText("Only continue if you started this on your own device")).toBeVisible();
  await expect(page.getByText("Porto, Portugal")).toBeVisible();
  await expectWellMade(page);
  expect(await isApproved(userCode)).toBe(false);

  await page.getByRole("button", { name: `Approve as ${member.email}` }).click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Sign-in approved");
  expect(await isApproved(userCode)).toBe(true);
});
