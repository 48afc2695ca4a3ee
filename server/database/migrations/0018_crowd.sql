ALTER TABLE "channels" ADD COLUMN "failing" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "crm_accounts" ADD COLUMN "paused_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "deliveries" ADD COLUMN "form" text;--> statement-breakpoint
ALTER TABLE "users" ADD COLUMN "seen_at" timestamp with time zone DEFAULT now() NOT NULL;--> statement-breakpoint
ALTER TABLE "users" ADD COLUMN "ended_through" bigint;--> statement-breakpoint
ALTER TABLE "used_tokens" ADD COLUMN "result" text;--> statement-breakpoint
CREATE INDEX "channels_due_first" ON "channels" USING btree ("failing","due_at") WHERE due_at is not null and leased_until is null;--> statement-breakpoint
CREATE INDEX "deliveries_next" ON "deliveries" USING btree ("channel","user_id","occurred_at","id") WHERE state = 'pending';--> statement-breakpoint
CREATE INDEX "deliveries_oldest" ON "deliveries" USING btree ("id") WHERE state = 'pending';