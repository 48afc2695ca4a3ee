CREATE TABLE "channels" (
	"id" text PRIMARY KEY NOT NULL,
	"next_at" timestamp with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "deal_events" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "deal_events_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"key" text NOT NULL,
	"portal_id" text NOT NULL,
	"deal_id" text NOT NULL,
	"stage_id" text NOT NULL,
	"occurred_at" timestamp with time zone NOT NULL,
	"received_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "deal_events_key" UNIQUE("key")
);
--> statement-breakpoint
CREATE TABLE "deliveries" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "deliveries_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"event_id" bigint NOT NULL,
	"user_id" uuid NOT NULL,
	"channel" text NOT NULL,
	"state" text DEFAULT 'pending' NOT NULL,
	"occurred_at" timestamp with time zone NOT NULL,
	"attempts" integer DEFAULT 0 NOT NULL,
	"reason" text,
	"not_before" timestamp with time zone,
	"sending_until" timestamp with time zone,
	"finished_at" timestamp with time zone,
	CONSTRAINT "deliveries_event_user" UNIQUE("event_id","user_id")
);
--> statement-breakpoint
ALTER TABLE "connections" ADD COLUMN "broken_reason" text;--> statement-breakpoint
ALTER TABLE "connections" ADD COLUMN "broken_since" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "connections" ADD COLUMN "refreshing_until" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "deliveries" ADD CONSTRAINT "deliveries_event_id_deal_events_id_fk" FOREIGN KEY ("event_id") REFERENCES "public"."deal_events"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "deliveries" ADD CONSTRAINT "deliveries_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "deal_events_received" ON "deal_events" USING btree ("received_at");--> statement-breakpoint
CREATE INDEX "deliveries_pending" ON "deliveries" USING btree ("channel","occurred_at","id") WHERE state = 'pending';--> statement-breakpoint
CREATE INDEX "deliveries_pending_user" ON "deliveries" USING btree ("user_id") WHERE state = 'pending';--> statement-breakpoint
CREATE INDEX "deliveries_dead" ON "deliveries" USING btree ("id") WHERE state = 'dead';