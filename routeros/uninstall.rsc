# Removes everything that install.rsc made, also after an installation that failed halfway. Keys and configuration stay on the disk.
#   /import file-name=uninstall.rsc

# As in install.rsc.
:local name "wattle"

:local version [/system/resource/get version]
:local dot [:find $version "."]
:local rest [:pick $version ($dot + 1) [:len $version]]
:local digits 0
:while (($digits < [:len $rest]) && ([:typeof [:find "0123456789" [:pick $rest $digits ($digits + 1)]]] = "num")) do={ :set digits ($digits + 1) }
:local minor [:tonum [:pick $rest 0 $digits]]
:local envGroup "name"
:local mountGroup "name"
:if ($minor >= 20) do={ :set envGroup "list" }
:if ($minor >= 21) do={ :set mountGroup "list" }

# Without the container package there is no such menu, and nothing of ours in it.
:local count 0
:do { :local read [:parse ":return [:len [/container/find where comment=\"$name\"]]"]; :set count [$read] } on-error={}
:if ($count > 0) do={
  :do { :local stop [:parse "/container/stop [/container/find where comment=\"$name\"]"]; $stop } on-error={}
  # It cannot be removed before it has stopped, and how that is told changes with the version: tried until it works.
  :local waited 0
  :while (($count > 0) && ($waited < 60)) do={
    :do { :local remove [:parse "/container/remove [/container/find where comment=\"$name\"]"]; $remove } on-error={}
    :delay 1s
    :set waited ($waited + 1)
    :local read [:parse ":return [:len [/container/find where comment=\"$name\"]]"]
    :set count [$read]
  }
  :if ($count > 0) do={ :error "wattle: the container does not stop: /container/stop it by hand, then run this again" }
}
:do { :local remove [:parse "/container/envs/remove [/container/envs/find where $envGroup=\"$name\"]"]; $remove } on-error={}
:do { :local remove [:parse "/container/mounts/remove [/container/mounts/find where $mountGroup=\"$name\"]"]; $remove } on-error={}

/ip/route/remove [/ip/route/find where comment=$name]
/routing/rule/remove [/routing/rule/find where comment=$name]
/ip/firewall/filter/remove [/ip/firewall/filter/find where comment=$name]
/ip/firewall/nat/remove [/ip/firewall/nat/find where comment=$name]
/ipv6/firewall/filter/remove [/ipv6/firewall/filter/find where comment=$name]
/ipv6/address/remove [/ipv6/address/find where comment=$name]
/ip/address/remove [/ip/address/find where comment=$name]
/interface/list/member/remove [/interface/list/member/find where comment=$name]
:do { :local remove [:parse "/interface/veth/remove [/interface/veth/find where comment=\"$name\"]"]; $remove } on-error={}

:put "wattle: removed. Keys and configuration are still on the disk, in the folder wattle"
